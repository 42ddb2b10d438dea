// SPDX-License-Identifier: MIT

package doc

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/lab/archive"
)

// lawData is of two pages.
const lawData = `{"table":"law","disk":"a","case":"a read 4x4","scheduler":"law","shares":"50 / 50","error":0.01,"per_s":4877,"of_none":1.000,"n":7.0,"of_bound":0.997,"p99_ms":"2 / 3","tail":1.6,"disk_tail":1.67,"in_flight":7,"missed":"ok","note":""}
{"table":"law","disk":"a","case":"a write 4x8","scheduler":"law","shares":"50 / 50","error":2,"per_s":4877,"of_none":1,"n":7,"of_bound":0.9,"p99_ms":"2 / 3","tail":1.6,"disk_tail":1.67,"in_flight":7,"missed":"ET","note":"","why":"it is a test"}
{"table":"law","disk":"b","case":"b pause","scheduler":"law","shares":"100","error":0,"per_s":10,"of_none":1,"p99_ms":"2","tail":1,"disk_tail":1,"in_flight":7,"missed":"B","note":"back after 3.0 s","why":"it is slow"}
{"table":"law","disk":"b","case":"b unlike: two","scheduler":"law","shares":"90 / 10","error":1,"per_s":10,"of_none":0.5,"p99_ms":"2 / 3","tail":1,"disk_tail":1,"in_flight":7,"own":"1.02 / 2.00","own_rate":1.02,"own_p99":1.23,"missed":"ok","note":"","why":""}
`

// samples are data of each table of this tree's pages, and what the pages make of them.
var samples = []struct{ page, data, want string }{
	{"daemon", `{"table":"costs","kernel":"6.1","containers":1000,"look_ms":600,"comes_ms":100,"scrape_ms":900,"peak_kb":51200}
{"table":"costs","kernel":"6.1","containers":200,"look_ms":150,"comes_ms":30,"scrape_ms":200,"peak_kb":30720}
`, `| containers | look at everything | at one a minute | a container that comes | scrape | at one in 15 s | memory at most |
|--:|--:|--:|--:|--:|--:|--:|
| 200 | 150 ms | 0.25 % | 30 ms | 200 ms | 1.3 % | 30 MB |
| 1000 | 600 ms | 1.00 % | 100 ms | 900 ms | 6.0 % | 50 MB |

Measured on kernel 6.1, at version v1.
`},
	{"filesystems", `{"table":"charges","kernel":"6.1","filesystem":"ext4","what":"data","own_kib":8192,"other_kib":0,"none_kib":12}
{"table":"charges","kernel":"6.1","filesystem":"xfs","what":"data","own_kib":8188,"other_kib":4,"none_kib":0}
{"table":"charges","kernel":"6.1","filesystem":"xfs","what":"files","own_kib":1,"other_kib":2,"none_kib":3}
{"table":"charges","kernel":"7.2","filesystem":"ext4","what":"data","own_kib":1,"other_kib":2,"none_kib":3}
`, `
Kernel 6.1:

| what the container does | ext4 | xfs |
|---|--:|--:|
| data | 8192 / 0 / 12 | 8188 / 4 / 0 |
| files | - | 1 / 2 / 3 |

Kernel 7.2:

| what the container does | ext4 |
|---|--:|
| data | 1 / 2 / 3 |

Measured on kernel 6.1 and 7.2, at version v1.
`},
	{"promises", `{"table":"attribution","disk":"a","kernel":"6.1","did":"as planned","want":"kept","held":false,"promised_iops":100,"got_iops":104.4,"depth":3,"plan_depth":2,"found":{"kept":20}}
{"table":"attribution","disk":"a","kernel":"6.1","did":"half the depth","want":"depth","held":false,"promised_iops":1,"got_iops":1,"depth":0,"plan_depth":0,"found":{"depth":12,"not demanded":6,"disk":2}}
{"table":"attribution","disk":"a","kernel":"6.1","did":"slow","want":"kept","held":true,"promised_iops":100,"got_iops":99,"depth":1,"plan_depth":1,"found":{"kept":18,"disk":2}}
{"table":"attribution","disk":"b","kernel":"6.1","did":"half the depth","want":"depth","held":false,"promised_iops":1,"got_iops":1,"depth":0,"plan_depth":0,"found":{"depth":20}}
{"table":"attribution","disk":"b","kernel":"6.1","did":"a few too few","want":"kept","if_missed":"depth","held":false,"promised_iops":1,"got_iops":1,"depth":0,"plan_depth":0,"found":{"kept":14,"depth":5,"disk":1}}
`, `| no violation | 20 | 0 | 0 | 0 | 0 | 0 | 0 | 100.0 % |
| ` + "`depth`" + ` | 0 | 6 | 0 | 2 | 0 | 32 | 0 | 95.0 % |
| too few requests for the plan: kept, or ` + "`depth`" + ` | 14 | 0 | 0 | 1 | 0 | 5 | 0 | 95.0 % |
…
| as planned | a | 100 | 104 | 3 of 2 | 20 | 0 | 0 | 0 | 0 | 0 | 0 | 100.0 % |
| half the depth | a | 1 | 1 | 0 of 0 | 0 | 6 | 0 | 2 | 0 | 12 | 0 | 90.0 % |
| half the depth | b | 1 | 1 | 0 of 0 | 0 | 0 | 0 | 0 | 0 | 20 | 0 | 100.0 % |
…
| slow | a | 100 | 99 | 18 | 2 |

Measured on kernel 6.1, at version v1.
`},
	{"reliability", `{"table":"cuts","kernel":"6.1","filesystem":"ext4","scheduler":"none","cuts":14,"acknowledged":1057,"lost":0,"unclean":0}
{"table":"cuts","kernel":"6.1","filesystem":"xfs","scheduler":"none","cuts":15,"acknowledged":999,"lost":1,"unclean":2}
{"table":"cuts","kernel":"6.1","filesystem":"ext4","no_flushes":true,"cuts":14,"acknowledged":3715,"lost":13,"unclean":0}
{"table":"cuts","kernel":"7.2","filesystem":"ext4","scheduler":"none","cuts":14,"acknowledged":1000000,"lost":0,"unclean":0}
{"table":"cuts","kernel":"6.1","filesystem":"ext4","scheduler":"none","databases":true,"cuts":2,"acknowledged":310,"lost":0,"unclean":0}
{"table":"cuts","kernel":"6.1","filesystem":"ext4","no_flushes":true,"databases":true,"cuts":4,"acknowledged":92,"lost":4,"unclean":0}
{"table":"operations","kernel":"6.1","disk":"nvme","scheduler":"none","load":false,"ms":{"read":1.4,"write":7.6},"not_supported":["secure erase","SCSI read"]}
{"table":"operations","kernel":"6.1","disk":"nvme","scheduler":"none","load":true,"ms":{"read":20},"not_supported":null}
{"table":"operations","kernel":"6.1","disk":"nvme","scheduler":"bfq","load":true,"ms":{"read":3},"not_supported":["swap"],"failed":{"write":"took too long"}}
{"table":"operations","kernel":"6.1","disk":"zoned","scheduler":"none","load":false,"ms":{"read":5},"not_supported":null}
{"table":"operations","kernel":"6.1","disk":"zoned","scheduler":"bfq","load":false,"refused":"invalid argument","ms":null,"not_supported":null}
{"table":"fuzz","target":"text_fuzz","executions":36095754,"input":""}
{"table":"fuzz","target":"kmod.FuzzBTF","executions":999,"input":"internal/kmod/testdata/1"}
`, `
### 6.1

| disk | none | bfq | not supported by the disk or its driver |
|---|--:|---|---|
| nvme | 3 of 3, 20 ms | 1 of 2, **failed: write** | secure erase, swap |
| zoned | 1 of 1, 5 ms | refused |  |

Measured on kernel 6.1, at version v1.
…
| file system | scheduler | cuts, 6.1 | acknowledged, 6.1 | losses, 6.1 | not clean, 6.1 | cuts, 7.2 | acknowledged, 7.2 | losses, 7.2 | not clean, 7.2 |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|
| ext4 | none | 14 | 1,057 | 0 | 0 | 14 | 1,000,000 | 0 | 0 |
| xfs | none | 15 | 999 | 1 | 2 | - | - | - | - |
| all |  | 29 | 2,056 | 1 | 2 | 14 | 1,000,000 | 0 | 0 |
…
| file system | scheduler | cuts, 6.1 | acknowledged, 6.1 | losses, 6.1 | not clean, 6.1 |
|---|---|--:|--:|--:|--:|
| ext4 | none | 2 | 310 | 0 | 0 |
| all |  | 2 | 310 | 0 | 0 |
…
| 6.1 | ext4 | system calls | 14 | 3,715 | 13 |
| 6.1 | ext4 | SQLite | 4 | 92 | 4 |
…
| target | executions | findings |
|---|--:|---|
| ` + "`text_fuzz`" + ` | 36,095,754 | none |
| ` + "`kmod.FuzzBTF`" + ` | 999 | one |
`},
	{"law", lawData, `| law | 2 | 1 | 1 | 1 | 0 | 0 | 1.00 | 0.949 |
…
| law | 1 | 0 | 0 | 0 | 0 | 1 | 0.00 | 0.000 |
…
| law | 1 | 1 | 0 | 1 | 1.02 | 0.50 |
`},
	{"law-cases", lawData, `| a write 4x8 | ET | it is a test |
| b pause | B | it is slow |
…
| b unlike: two | 1.02 / 2.00 | 1.2 | 0.50 |
…
### a

| case | scheduler | shares, % | error, % | requests/s | of ` + "`none`" + ` | N* | of X(N*) | p99, ms | p99 x rate / depth | the disk's | in flight | missed |  |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|---|
| a read 4x4 | law | 50 / 50 | 0.01 | 4877 | 1.000 | 7.0 | 0.997 | 2 / 3 | 1.60 | 1.67 | 7 | ok |  |
…
### b
…
| b pause | law | 100 | 0.00 | 10 | 1.000 | - | - | 2 | 1.00 | 1.00 | 7 | B | back after 3.0 s |
`},
	{"scaling", `{"table":"rates","cpus":2,"threads":1,"contexts":64,"cgroups":"one cgroup","state":"queued","rates":{"kyber-fairness":[2,1],"Kyber's structure":[3,2],"one lock":[]},"of":{"of Kyber's":[0.5,0.7],"of one lock's":[]}}
{"table":"counts","contexts":4,"cgroups":"one cgroup","state":"deep","structure":"kyber-fairness","locked":[12.04,0,0.5],"fetched":13.8}
{"table":"counts","contexts":4,"cgroups":"one cgroup","state":"deep","structure":"one lock","locked":[0,5,0],"fetched":3}
{"table":"phases","cgroups":"one cgroup","state":"deep","structure":"kyber-fairness","phase":"dispatch","locked":[1,0,0],"shared_locks":0,"shared_writes":2,"fetched":3,"workers":0.25}
{"table":"boot","kernel":"6.1","cpus":2,"scheduler":"none","jobs":1,"groups":1,"depth":32,"per_second":[31000,29500,30500]}
{"table":"boot","kernel":"6.1","cpus":2,"scheduler":"sfq","jobs":1,"groups":1,"depth":32,"per_second":[1000,2000]}
`, `| hardware contexts | cgroups | state | kyber-fairness | fetched, kyber-fairness | one lock | fetched, one lock |
…
| 4 | one cgroup | deep | 12.0 / 0.0 / 0.5 | 13.8 | 0.0 / 5.0 / 0.0 | 3.0 |
…
| one cgroup | deep | kyber-fairness | dispatch | 1.0 / 0.0 / 0.0 | 0.0 | 2.0 | 3.0 | 0.250 |
…
| 1 | 64 | one cgroup | queued | 1.50 (1.00 to 2.00) | 2.50 (2.00 to 3.00) | not seen | 0.60 |  |
…
| CPUs | jobs | cgroups | depth | none | sfq |
|--:|--:|--:|--:|--:|--:|
| 2 | 1 | 1 | 32 | 30.5 (29.5 to 31.0) | 1.5 (1.0 to 2.0) |

Measured on kernel 6.1, at version v1.
`},
}

// sampled are the files of a page of this tree with data.
func sampled(t *testing.T, page, data string) (map[string][]byte, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "data.jsonl")
	put(t, file, data)
	return One(thisTree, page, "v1", []string{file})
}

const thisTree = archive.Tree("../../..")

func TestPagesOfData(t *testing.T) {
	for _, s := range samples {
		files, err := sampled(t, s.page, s.data)
		if err != nil {
			t.Errorf("%s: %v", s.page, err)
			continue
		}
		file, err := Page(thisTree, s.page)
		noError(t, err)
		rest, is := string(files[file]), false
		for part := range strings.SplitSeq(s.want, "…\n") {
			if _, rest, is = strings.Cut(rest, "\n"+part); !is {
				t.Errorf("%s: there is no, or not after what is above it,\n%s\nin\n%s", s.page, part, files[file])
				break
			}
			rest = "\n" + rest
		}
		// What is kept makes the same page.
		tree := archive.Tree(t.TempDir())
		put(t, filepath.Join(string(tree), file), string(files[file]))
		put(t, filepath.Join(string(tree), keptFile(file)), string(files[keptFile(file)]))
		data, err := keptData(tree, file)
		noError(t, err)
		text := regexp.MustCompile(`(?s)<!-- results\n(result|table|plot) = .*?-->\n`).ReplaceAllString(string(files[file]), "")
		again, err := (&Filler{Tree: tree}).Fill(file, []byte(text), data)
		if err != nil || string(again.Text) != text {
			t.Errorf("%s: filled with what is kept it is another: %v", s.page, err)
		}
	}
}

// A mistake of the data or of a marker is told with its place, and nothing is filled.
func TestDataRefused(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"no JSON", "{", "byte "},
		{"no table", `{"kernel":"6.1"}`, "a line names no table"},
		{"nothing", "", "is empty"},
		{"table of another page", `{"table":"boot"}`, `docs/daemon.md: has no place for table "boot"`},
		{"step", `{"table":"steps","step":"enable"}`, `docs/daemon.md: has no place for step "enable"`},
		{"missing member", `{"table":"costs","containers":1}`, "columns.cell"},
	} {
		if _, err := sampled(t, "daemon", c.data); err == nil || !strings.Contains(err.Error(), c.want) || failure.Code(err) != failure.Usage {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Page(thisTree, "absent"); err == nil || failure.Code(err) != failure.Usage {
		t.Errorf("a page that is not there: %v", err)
	}
	data := Data{"a": {{"table": "a", "n": 1.0, "text": "x"}, {"table": "a", "n": 3.0}}}
	for _, c := range []struct{ marker, want string }{
		{`columns = [{ head = "n" }]`, "a.md:1: columns: are missing, or one has no cell"},
		{``, "a.md:1: columns: are missing"},
		{`columns = [{ head = "n", cell = "n +" }]`, "a.md:1: columns.cell: unexpected token"},
		{`columns = [{ head = "n", cell = "m" }]`, "a.md:1: columns.cell: m has no value"},
		{`columns = [{ head = "n", cell = "printf('%d', n)" }]`, "a.md:1: columns.cell: %!d(float64=1)"},
		{`columns = [{ head = "n", cell = "thousands(text)" }]`, "not a number"},
		{"where = \"n == 2\"\ncolumns = [{ head = \"n\", cell = \"n\" }]", "a.md:1: where: none of the 2 lines of a is for this table"},
		{"sort = \"m\"\ncolumns = [{ head = \"n\", cell = \"n\" }]", "a.md:1: sort: m has no value"},
		{`heads = 1`, "a.md:3: heads: unknown key"},
	} {
		_, err := (&Filler{}).Fill("a.md", []byte(begin+"\ndata = \"a\"\n"+c.marker+"\n"+ends+"\n"+after+"\n"), data)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.marker, err, c.want)
		}
	}
}

// Long tables and steps are in their pages alone.
func TestKeptData(t *testing.T) {
	data := Data{"short": {{"table": "short"}}, steps: {{"step": "x"}}, "long": slices.Repeat([]line{{"table": "long"}}, keptMost+1)}
	if got := string(data.kept()); got != "{\"table\":\"short\"}\n" {
		t.Errorf("kept %q", got)
	}
}

func TestSteps(t *testing.T) {
	const page = "# A\n<!-- results step = \"enable\" -->\nold\n<!-- end of results -->\ntext\n<!-- results step = \"left\" -->\n<!-- end of results -->\n"
	data := Data{steps: {{"step": "enable", "command": "sudo isolio enable x", "output": "x: scheduler\n\nmore  \n"}, {"step": "left", "command": "ls", "output": ""}}}
	const want = "# A\n<!-- results step = \"enable\" -->\n\n    $ sudo isolio enable x\n    x: scheduler\n\n    more\n\n<!-- end of results -->\ntext\n" +
		"<!-- results step = \"left\" -->\n\n    $ ls\n\n<!-- end of results -->\n"
	for _, data := range []Data{data, nil, data} {
		text := page
		if data == nil {
			text = want
		}
		if filled, err := (&Filler{}).Fill("a.md", []byte(text), data); err != nil || string(filled.Text) != want {
			t.Errorf("%v, %s", err, filled.Text)
		}
	}
	data[steps][1]["step"] = "other"
	if _, err := (&Filler{}).Fill("a.md", []byte(page), data); err == nil || !strings.Contains(err.Error(), `a.md:6: step: the data has no step "left"`) {
		t.Errorf("with another step: %v", err)
	}
}

// Each page has a place for each step of its test, which prints no other one.
func TestPagesHaveAllSteps(t *testing.T) {
	for page, test := range map[string]string{"first-hour": "firsthour_test.go", "promises-podman": "podman_test.go"} {
		text, err := os.ReadFile("../../../tests/vm/" + test)
		noError(t, err)
		var data strings.Builder
		for _, m := range regexp.MustCompile(`h\.(?:step|refused)\("([a-z ]+)"`).FindAllStringSubmatch(string(text), -1) {
			data.WriteString(`{"table":"steps","step":"` + m[1] + `","command":"x","output":"y"}` + "\n")
		}
		if _, err := sampled(t, page, data.String()); err != nil || strings.Count(data.String(), "\n") < 10 {
			t.Errorf("%s: %v", page, err)
		}
	}
}

// A step of a report is what `isolio report` prints of a case.
func TestStepOfReport(t *testing.T) {
	fill := func(upTo string) (*Filled, error) {
		asked := "step = \"demo\"\nreport = \"one\"\ncase = \"x\"\nup_to = \"" + upTo + "\""
		return newFiller(t).Fill("a.md", []byte(between(asked, "")), nil)
	}
	filled, err := fill("bfq")
	noError(t, err)
	if got := string(filled.Text); !strings.Contains(got, "    $ isolio report one | sed -n '/^== x/,/^bfq/p'\n    == x\n") || !strings.Contains(got, "\n    bfq ") || strings.Contains(got, "alone") {
		t.Errorf("made\n%s", got)
	}
	if _, err := fill("sfq"); err == nil || !strings.Contains(err.Error(), `a.md:3: up_to: no line of the report begins with "sfq"`) {
		t.Errorf("up to what is not there: %v", err)
	}
}
