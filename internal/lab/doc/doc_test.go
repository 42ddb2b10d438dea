// SPDX-License-Identifier: MIT

package doc

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/lab/archive"
	"isolio/internal/lab/result"
)

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const testExperiment = `
name = "one"
question = "Does it?"
schedulers = ["none", "bfq"]
ramp_s = 1.0
duration_s = 2.0
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
queues = 1
size_mib = 64
[job]
rw = "randread"
ioengine = "libaio"
[[container]]
name = "a"
weight = 300
[[container]]
name = "b"
weight = 100
[[case]]
name = "x"
[[case]]
name = "alone"
schedulers = ["none"]
`

// newFiller has one experiment, whose result has figures that are easy to tell apart.
func newFiller(t *testing.T) *Filler {
	t.Helper()
	tree := archive.Tree(t.TempDir())
	put(t, filepath.Join(string(tree), "experiments/one.toml"), testExperiment)
	put(t, filepath.Join(string(tree), "experiments/unmeasured.toml"), strings.Replace(testExperiment, `"one"`, `"unmeasured"`, 1))
	all, err := tree.Experiments()
	noError(t, err)
	provenance, err := tree.Provenance(all[0])
	noError(t, err)
	provenance.Version = "v1"
	versus := func(v float64) *float64 { return &v }
	containers := func(a, b float64) []result.Container {
		return []result.Container{
			{Name: "a", Weight: 300, EntitledShare: 0.75, Share: a, IOPS: a * 1000, Read: &result.Direction{Lat: result.Latency{P99: 1234.5}}},
			{Name: "b", Weight: 100, EntitledShare: 0.25, Share: b, IOPS: b * 1000},
		}
	}
	noError(t, tree.Write(&result.Document{
		Verdicts: []result.Verdict{
			{Case: "x", Scheduler: "bfq", Metric: "jain_weighted", Wanted: ">= 0.99", Got: versus(1), Met: true},
			{Case: "x", Scheduler: "bfq", Metric: "total_vs_none", Wanted: ">= 0.8", Got: versus(0.75)},
			{Case: "x", Scheduler: "none", Metric: "cpu_ns_per_io", Wanted: "<= 9"},
			{Case: "alone", Scheduler: "none", Metric: "total_iops", Wanted: ">= 9", Got: versus(1)},
		},
		Schema: result.Schema, Experiment: "one", Kernel: "6.1", Fio: "fio-3", Provenance: provenance, Runs: []result.Run{
			{Case: "x", Scheduler: "none", TotalBytesPS: 200, TotalVsNone: versus(1), JainWeighted: 0.5, Containers: containers(0.5, 0.5)},
			{Case: "x", Scheduler: "bfq", TotalBytesPS: 150, TotalVsNone: versus(0.75), JainWeighted: 1, Containers: containers(0.75, 0.25)},
			{Case: "alone", Scheduler: "none", TotalBytesPS: 100, TotalVsNone: versus(1), Containers: containers(1, 0)},
		},
	}))
	return &Filler{Tree: tree}
}

func put(t *testing.T, file, text string) {
	t.Helper()
	noError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	noError(t, os.WriteFile(file, []byte(text), 0o644))
}

// between makes a document with a block.
func between(asked, filled string) string {
	return "# Title\n\n" + begin + "\n" + asked + "\n" + ends + "\n" + filled + after + "\n\nThe end.\n"
}

const contendersBlock = `table = "contenders"
result = "one"
case = "x"
columns = [
  { head = "total / none", metric = "total_vs_none" },
  { head = "share of a, %", metric = "share:a", times = 100, decimals = 1 },
  { head = "p99, ms", metric = "lat_us.p99", container = "a", times = 0.001 },
]`

const contendersTable = `| scheduler | total / none | share of a, % | p99, ms |
|---|--:|--:|--:|
| none | 1.00 | 50.0 | 1.23 |
| bfq | 0.750 | 75.0 | 1.23 |

Measured on kernel 6.1 with fio-3, at version v1.
`

const casesBlock = `table = "cases"
contenders = ["none", "bfq"]
columns = [{ metric = "total_vs_none" }, { metric = "jain_weighted", decimals = 4 }]
rows = [{ name = "reads", result = "one", case = "x" }]`

const casesTable = `| workload | none | bfq |
|---|--:|--:|
| reads | 1.00, 0.5000 | 0.750, 1.0000 |
`

const renamedBlock = `table = "cases"
contenders = ["bfq", "none"]
names = ["BFQ", "nothing"]
rows = [
  { name = "reads", result = "one", case = "x", column = { metric = "total_vs_none", decimals = 1 } },
  { name = "p99 of a, ms", result = "one", case = "x", column = { metric = "lat_us.p99", container = "a", times = 0.001 } },
]`

const renamedTable = `| workload | BFQ | nothing |
|---|--:|--:|
| reads | 0.8 | 1.0 |
| p99 of a, ms | 1.23 | 1.23 |
`

const severalBlock = `table = "contenders"
result = "one"
head = "way"
columns = [{ head = "total / none", metric = "total_vs_none" }]`

const severalTable = `| case | way | total / none |
|---|---|--:|
| x | none | 1.00 |
| x | bfq | 0.750 |
| alone | none | 1.00 |

Measured on kernel 6.1 with fio-3, at version v1.
`

const namedBlock = severalBlock + `
contenders = ["bfq"]
verdicts = true
rows = [{ name = "one alone", case = "alone" }, { case = "x" }]`

const namedTable = `| case | way | total / none |
|---|---|--:|
| x | bfq | 0.750 |

Measured on kernel 6.1 with fio-3, at version v1.

Of 4 expectations of the experiment, 1 are met. Not met:

- ` + "`alone: none: total_iops >= 9`: measured 1\n- `x: bfq: total_vs_none >= 0.8`: measured 0.75\n- `x: none: cpu_ns_per_io <= 9`: not measured\n"

const besideBlock = `table = "contenders"
contenders = ["none"]
result = "one"
columns = [
  { head = "total", metric = "total_bytes_per_s" },
  { head = "of x", metric = "total_bytes_per_s", over = "both", decimals = 2 },
  { head = "of the lowest", metric = "total_bytes_per_s", over = "lowest", decimals = 2 },
  { head = "nothing", metric = "jain_weighted", over = "self" },
]
rows = [{ name = "one", as = "by itself", case = "alone", beside = { both = "x", self = "alone" } }]`

const besideTable = `| case | scheduler | total | of x | of the lowest | nothing |
|---|---|--:|--:|--:|--:|
| one | by itself | 100 | 0.50 | 1.00 | - |

Measured on kernel 6.1 with fio-3, at version v1.
`

const verdictsBlock = `table = "verdicts"
result = "one"
rows = [{ name = "with b", case = "x" }]`

const verdictsTable = "| case | scheduler | figure | wanted | measured | met |\n|---|---|---|--:|--:|---|\n" +
	"| with b | bfq | `jain_weighted` | >= 0.99 | 1 | yes |\n" +
	"| with b | bfq | `total_vs_none` | >= 0.8 | 0.75 | no |\n" +
	"| with b | none | `cpu_ns_per_io` | <= 9 | - | no |\n" +
	"\nMeasured on kernel 6.1 with fio-3, at version v1.\n" +
	"\nOf 3 expectations of the experiment, 1 are met.\n"

func TestTables(t *testing.T) {
	for asked, want := range map[string]string{
		contendersBlock: contendersTable, casesBlock: casesTable, severalBlock: severalTable, namedBlock: namedTable,
		verdictsBlock: verdictsTable, besideBlock: besideTable, renamedBlock: renamedTable,
		casesBlock + "\nverdicts = true": casesTable + "\nMeasured on kernel 6.1 with fio-3, at version v1.\n" +
			"\nOf 3 expectations of the experiment, 1 are met. Not met:\n\n" +
			"- `x: bfq: total_vs_none >= 0.8`: measured 0.75\n- `x: none: cpu_ns_per_io <= 9`: not measured\n",
	} {
		for _, before := range []string{"", "| old |\n|---|\n", want} {
			filled, err := newFiller(t).Fill("a.md", []byte(between(asked, before)), nil)
			noError(t, err)
			if got := string(filled.Text); got != between(asked, want) {
				t.Errorf("made\n%s\nwant\n%s", got, between(asked, want))
			}
			if len(filled.Results) != 1 || filled.Results[0] != "one" {
				t.Errorf("results %v", filled.Results)
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	want := contendersTable + "\nOf 3 expectations of the experiment, 1 are met. Not met:\n\n" +
		"- `bfq: total_vs_none >= 0.8`: measured 0.75\n- `none: cpu_ns_per_io <= 9`: not measured\n"
	asked := contendersBlock + "\nverdicts = true"
	filled, err := newFiller(t).Fill("a.md", []byte(between(asked, "")), nil)
	noError(t, err)
	if got := string(filled.Text); got != between(asked, want) {
		t.Errorf("made\n%s\nwant\n%s", got, between(asked, want))
	}
}

// Where expectations say where their bounds are from, the table does.
func TestSources(t *testing.T) {
	f := newFiller(t)
	put(t, filepath.Join(string(f.Tree), "experiments/one.toml"), testExperiment+
		"[[expect]]\ncase = \"x\"\nscheduler = \"bfq\"\nmetric = \"jain_weighted\"\nmin = 0.99\nsource = \"a paper\"\n")
	filled, err := f.Fill("a.md", []byte(between(verdictsBlock, "")), nil)
	noError(t, err)
	for _, want := range []string{" | met | source |\n", "| 1 | yes | a paper |\n", "| 0.75 | no | - |\n"} {
		if !strings.Contains(string(filled.Text), want) {
			t.Errorf("made\n%s\nwant in it %q", filled.Text, want)
		}
	}
}

// A column with spread has the least and the most over the seeds.
func TestSpreadOfSeeds(t *testing.T) {
	f := newFiller(t)
	doc, err := f.Tree.Read("one")
	noError(t, err)
	for i := range doc.Runs {
		doc.Runs[i].Seeds = 3
		doc.Runs[i].Containers[0].Read = &result.Direction{IOPS: 1, Lat: result.Latency{Mean: 1, P99: 1234.5}, Seeds: &result.Seeds{
			Least: result.Extreme{Lat: result.Latency{P99: 1000}}, Most: result.Extreme{Lat: result.Latency{P99: 2000}},
		}}
	}
	noError(t, f.Tree.Write(doc))
	asked := strings.Replace(contendersBlock, "times = 0.001 }", "times = 0.001, spread = true }", 1)
	filled, err := f.Fill("a.md", []byte(between(asked, "")), nil)
	noError(t, err)
	if want := "| bfq | 0.750 | 75.0 | 1.23 (1.00 to 2.00) |\n"; !strings.Contains(string(filled.Text), want) {
		t.Errorf("made\n%s\nwant in it\n%s", filled.Text, want)
	}
}

// A table says when its result is older than the code, and is no other table for it.
func TestOlder(t *testing.T) {
	f := newFiller(t)
	put(t, filepath.Join(string(f.Tree), "experiments/one.toml"), strings.Replace(testExperiment, "weight = 300", "weight = 301", 1))
	filled, err := f.Fill("a.md", []byte(between(contendersBlock, "")), nil)
	noError(t, err)
	want := between(contendersBlock, strings.Replace(contendersTable, "at version v1.", "at version v1, older than the code.", 1))
	if got := string(filled.Text); got != want {
		t.Errorf("made\n%s\nwant\n%s", got, want)
	}
	if now := between(contendersBlock, contendersTable); !Same(filled.Text, []byte(now)) || Same(filled.Text, []byte(strings.Replace(now, "v1", "v2", 1))) {
		t.Error("the age of a result makes another document, or another version makes none")
	}
}

func TestPlot(t *testing.T) {
	asked := "plot = \"shares\"\nresult = \"one\"\ncase = \"x\"\nfile = \"plots/one.svg\"\nalt = \"Who gets what\""
	filled, err := newFiller(t).Fill("docs/a.md", []byte(between(asked, "")), nil)
	noError(t, err)
	if want := between(asked, "![Who gets what](plots/one.svg)\n"); string(filled.Text) != want {
		t.Errorf("made\n%s\nwant\n%s", filled.Text, want)
	}
	svg := string(filled.Plots[filepath.FromSlash("docs/plots/one.svg")])
	for _, want := range []string{`<svg xmlns="http://www.w3.org/2000/svg"`, "Who gets what", ">bfq<", ">75.0 %<", ">by weight<", ">a (weight 300)<", "<style>", `fill="#0072b2" class="f-c0"`, ".f-c0 { fill: #4ba3e0 }", "prefers-color-scheme: dark"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
}

// Plots of several cases stand side by side: in one paragraph.
func TestPlots(t *testing.T) {
	asked := "plot = \"shares\"\nresult = \"one\"\ncontenders = [\"bfq\", \"none\"]\nrows = [{ name = \"Both\", case = \"x\" }, { name = \"The same\", case = \"x\" }]\nfile = \"plots/one-*.svg\"\nalt = \"Shares\""
	filled, err := newFiller(t).Fill("docs/a.md", []byte(between(asked, "")), nil)
	noError(t, err)
	if want := between(asked, "![Shares: Both](plots/one-x.svg)\n![Shares: The same](plots/one-x.svg)\n"); string(filled.Text) != want {
		t.Errorf("made\n%s\nwant\n%s", filled.Text, want)
	}
	svg := string(filled.Plots[filepath.FromSlash("docs/plots/one-x.svg")])
	if strings.Index(svg, ">bfq<") > strings.Index(svg, ">none<") || !strings.Contains(svg, ">The same<") {
		t.Errorf("the picture has no title, or other contenders than asked for:\n%s", svg)
	}
}

// A plot against disks of their own cannot be made where none was measured.
func TestOwnDiskIsMeasured(t *testing.T) {
	asked := "plot = \"own-disk\"\nresult = \"one\"\ncase = \"x\"\nfile = \"plots/one.svg\"\nalt = \"Against their own\""
	if _, err := newFiller(t).Fill("docs/a.md", []byte(between(asked, "")), nil); err == nil || !strings.Contains(err.Error(), `case "x": none lacks the rate of a`) {
		t.Errorf("error %v", err)
	}
}

// The variants of a tunable make a curve, and what is none of them a level.
func TestCurve(t *testing.T) {
	f := newFiller(t)
	text := testExperiment
	for _, name := range []string{"10", "90"} {
		text += "[[contender]]\nname = \"age-" + name + "\"\nscheduler = \"bfq\"\nlabel = \"" + name + "\"\ntunables = { slice_idle = " + name + " }\n"
	}
	put(t, filepath.Join(string(f.Tree), "experiments/one.toml"), text)
	doc, err := f.Tree.Read("one")
	noError(t, err)
	for i, name := range []string{"10", "90"} {
		doc.Runs = append(doc.Runs, result.Run{
			Case: "x", Scheduler: "age-" + name, TotalIOPS: 100 + 40*float64(i), Variant: &result.Variant{Of: "bfq", Label: name}, Containers: doc.Runs[0].Containers,
		})
	}
	noError(t, f.Tree.Write(doc))
	asked := `plot = "curve"
result = "one"
contenders = ["age-10", "age-90"]
rows = [{ case = "x" }, { case = "alone", contenders = ["none"] }]
x = "age_th"
y = "a second"
file = "plots/curve.svg"
alt = "Along age_th"
columns = [{ head = "requests", metric = "total_iops" }]`
	filled, err := f.Fill("docs/a.md", []byte(between(asked, "")), nil)
	noError(t, err)
	if want := between(asked, "![Along age_th](plots/curve.svg)\n"); string(filled.Text) != want {
		t.Errorf("made\n%s\nwant\n%s", filled.Text, want)
	}
	svg := string(filled.Plots[filepath.FromSlash("docs/plots/curve.svg")])
	for _, want := range []string{">requests<", ">age_th<", ">100<", "Along age_th"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
	for name, c := range map[string]struct{ old, now, want string }{
		"one variant":  {`"age-10", "age-90"`, `"age-90"`, "has no two contenders with numbers for labels"},
		"no axis":      {`x = "age_th"`, "", "has no columns, no x or no y"},
		"no figure":    {"total_iops", "delay_count.max", "one has no delay_count.max of age-10 in case x"},
		"no such plot": {`"curve"`, `"curves"`, `"curves" is not a kind of plot; allowed: curve, delays, own-disk, reads, shares; or`},
		"no delays":    {`"curve"`, `"delays"`, "one has no distribution of age-10 in case x"},
		"no file":      {`file = "plots/curve.svg"`, "", "file: is not an SVG file"},
	} {
		if _, err := f.Fill("docs/a.md", []byte(between(strings.Replace(asked, c.old, c.now, 1), "")), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

// What cannot be filled is refused with file and line, and nothing is made up.
func TestRefused(t *testing.T) {
	change := func(old, now string) string { return strings.Replace(contendersBlock, old, now, 1) }
	for _, c := range []struct{ name, text, want string }{
		{"result", between(change(`"one"`, `"two"`), ""), `a.md:3: result: no experiment is called "two"`},
		{"case", between(change(`"x"`, `"y"`), ""), `a.md:3: case: one has no case "y"; allowed: x, alone`},
		{"verdicts of several", between(strings.Replace(casesBlock, `case = "x" }`, `case = "x" }, { name = "more", result = "unmeasured", case = "x" }`, 1)+"\nverdicts = true", ""),
			"a.md:3: verdicts: are asked for of rows that have several results"},
		{"metric", between(change("total_vs_none", "total_vs_nobody"), ""), `a.md:3: columns.metric: unknown metric "total_vs_nobody"; allowed: jain_weighted`},
		{"container", between(change(`container = "a"`, `container = "c"`), ""), `a.md:3: columns.container: "c" is not one of the experiment's containers; allowed: a, b`},
		{"scheduler", between(contendersBlock+"\ncontenders = [\"sfq\"]", ""), `a.md:3: columns.scheduler: "sfq" is not one of the experiment's schedulers; allowed: none, bfq`},
		{"scheduler not there", between(strings.Replace(change(`"x"`, `"alone"`), "table", "contenders = [\"bfq\"]\ntable", 1), ""), "a.md:3: columns.scheduler: bfq does not run in case alone; allowed: none"},
		{"key", between(change("metric", "metrik"), ""), "a.md:8: metrik: unknown key"},
		{"table", between(change(`"contenders"`, `"rows"`), ""), `a.md:3: table: "rows" is not a kind of table; allowed: cases, contenders, promises, verdicts`},
		{"in place of two", between(severalBlock+"\nrows = [{ case = \"x\", as = \"one\" }]", ""), `a.md:3: rows.as: "one" is in place of 2 contenders; allowed: one`},
		{"over nothing", between(strings.Replace(besideBlock, `over = "both"`, `over = "neither"`, 1), ""), `a.md:3: columns.over: beside of row "one" has no case for "neither"; allowed: both, self, lowest`},
		{"beside no case", between(strings.Replace(besideBlock, `both = "x"`, `both = "y"`, 1), ""), `a.md:3: columns.over: beside of row "one" has no case for "both"`},
		{"names", between(strings.Replace(renamedBlock, `"BFQ", `, "", 1), ""), "a.md:3: names: are 1, of 2 contenders; allowed: "},
		{"no rows", between(severalBlock+"\nrows = []", ""), "a.md:3: rows: is empty"},
		{"no end", "text\n" + begin + "\ntable = \"contenders\"\n", "a.md:2: has no end"},
		{"no end of the table", "text\n" + begin + "\ntable = \"contenders\"\n" + ends + "\n| a |\n", "a.md:2: has no end"},
	} {
		_, err := newFiller(t).Fill("a.md", []byte(c.text), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || failure.Code(err) != failure.Usage {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// A block whose result is missing says how to measure it, and names nothing as measured.
func TestNotMeasured(t *testing.T) {
	for asked, want := range map[string]string{
		strings.Replace(contendersBlock, `"one"`, `"unmeasured"`, 1):                                              "Not measured yet: `make results ONLY=unmeasured` measures it.\n",
		strings.Replace(severalBlock, `"one"`, `"unmeasured"`, 1):                                                 "Not measured yet: `make results ONLY=unmeasured` measures it.\n",
		strings.Replace(casesBlock, "rows = [", `rows = [{ name = "b", result = "unmeasured", case = "x" }, `, 1): "Not measured yet: `make results ONLY=unmeasured` measures it.\n",
	} {
		filled, err := newFiller(t).Fill("a.md", []byte(between(asked, "| old |\n")), nil)
		noError(t, err)
		if got := string(filled.Text); got != between(asked, want) || len(filled.Results) > 0 {
			t.Errorf("results %v, made\n%s\nwant\n%s", filled.Results, got, between(asked, want))
		}
	}
}

func TestIndexes(t *testing.T) {
	f := newFiller(t)
	put(t, filepath.Join(string(f.Tree), "experiments/more/two.toml"), strings.Replace(testExperiment, `"one"`, `"two"`, 1))
	files, err := Indexes(f.Tree)
	noError(t, err)
	got := string(files[filepath.FromSlash("experiments/more/README.md")])
	if len(files) != 2 || !strings.Contains(got, "| [two](two.toml) | Does it? | none, bfq | 2 | 1 |\n") {
		t.Errorf("%d indexes, of them\n%s", len(files), got)
	}
}

// facts are what a document says in any language: commands without their comments, and the
// figures of tables without the names of their rows.
func facts(t *testing.T, tree archive.Tree, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(string(tree), name))
	noError(t, err)
	var found []string
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, " #")
		line = strings.TrimRight(line, " \n")
		_, cells, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		switch {
		case strings.HasPrefix(line, "    "):
			found = append(found, line)
		case strings.HasPrefix(line, "| ") && figureCell.MatchString("| "+cells):
			found = append(found, cells)
		}
	}
	if len(found) < 11 {
		t.Errorf("%s has %d lines of commands and figures, and should have more", name, len(found))
	}
	return found
}

// The documents of this tree are what their results have them be, however old those are.
func TestDocumentsOfThisTree(t *testing.T) {
	tree := archive.Tree("../../..")
	files, err := All(tree)
	noError(t, err)
	for name, want := range files {
		if have, err := os.ReadFile(filepath.Join(string(tree), name)); err != nil || !Same(have, want) {
			t.Errorf("%s differs from the results or the experiments that it is made of: `make doc` makes it", name)
		}
	}
	if english, korean := facts(t, tree, "README.md"), facts(t, tree, "README.ko.md"); !slices.Equal(english, korean) {
		t.Errorf("README.ko.md has other commands or figures than README.md:\n%q\n%q", korean, english)
	}
}
