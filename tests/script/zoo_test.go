// SPDX-License-Identifier: MIT

package script

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"isolio/internal/host/bundle"
	host "isolio/internal/host/command"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// The zoo is a tree for each system that people have, written from what is documented of it; none is a
// record of a machine. A line of zoo/*.tree is `PATH = TEXT`, where a path that comes again gets another
// line, `PATH -> TARGET`, `! PATH` for what base.tree has and it has not, or a device:
//
//	disk NAME MAJ:MIN SCHEDULERS
//	part DISK/NAME MAJ:MIN
//	dm NAME MAJ:MIN UUID DMNAME BELOW...
//	md NAME MAJ:MIN LEVEL BELOW...
//
// Its first lines say what must come out: `# root:` the disks of /, `# all:` those of `enable --all`,
// `# doctor:` the exit code, 0 if left out.
type animal struct {
	root  string
	facts map[string]string
}

func TestZoo(t *testing.T) {
	trees, err := filepath.Glob("zoo/*.tree")
	must.OK(t, err)
	tried := 0
	for _, file := range trees {
		name := strings.TrimSuffix(filepath.Base(file), ".tree")
		if name == "base" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			a := load(t, file)
			a.golden(t, strings.TrimSuffix(file, "tree")+"golden")
			tried += visit(t, a)
		})
	}
	t.Logf("%d machines, %d remedies run", len(trees)-1, tried)
}

// load makes the tree of a machine.
func load(t *testing.T, file string) animal {
	t.Helper()
	a := animal{t.TempDir(), map[string]string{"doctor": "0"}}
	files := map[string]string{}
	var lacks []string
	for _, from := range []string{file, "zoo/base.tree"} {
		text, err := os.ReadFile(from)
		must.OK(t, err)
		there := len(files)
		own := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSuffix(line, "\n")
			if key, value, ok := strings.Cut(strings.TrimPrefix(line, "# "), ": "); ok && strings.HasPrefix(line, "# ") {
				a.facts[key] = strings.TrimSpace(value)
				continue
			}
			if name, ok := strings.CutPrefix(line, "! "); ok {
				lacks = append(lacks, name)
				continue
			}
			if name, to, ok := strings.Cut(line, " -> "); ok {
				must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(a.root, name)), 0o755))
				must.OK(t, os.Symlink(to, filepath.Join(a.root, name)))
				continue
			}
			name, content, ok := strings.Cut(line, " =")
			if !ok {
				device(files, strings.Fields(line))
				continue
			}
			if _, before := files[name]; before && there > 0 && !own[name] {
				continue // the machine's own
			}
			own[name] = true
			content = strings.TrimPrefix(content, " ")
			if name == "proc/self/mountinfo" || name == "etc/os-release" {
				files[name] += content + "\n"
				continue
			}
			files[name] = content + "\n"
		}
	}
	for _, name := range lacks {
		delete(files, name)
	}
	testtree.Write(t, a.root, files)
	return a
}

// device adds the files of one.
func device(files map[string]string, words []string) {
	if len(words) < 3 {
		return
	}
	dir := "sys/block/" + words[1]
	files[dir+"/dev"] = words[2] + "\n"
	if words[0] == "part" {
		files[dir+"/partition"] = "1\n"
		return
	}
	files[dir+"/size"], files[dir+"/queue/scheduler"], files[dir+"/queue/nr_requests"] = "500118192\n", "none\n", "64\n"
	below := words[4:]
	switch words[0] {
	case "disk":
		files[dir+"/queue/scheduler"] = strings.Join(words[3:], " ") + "\n"
		return
	case "dm":
		files[dir+"/dm/uuid"], files[dir+"/dm/name"], below = words[3]+"\n", words[4]+"\n", words[5:]
	case "md":
		files[dir+"/md/level"] = words[3] + "\n"
	}
	for _, name := range below {
		files[dir+"/slaves/"+name+"/x"] = ""
		for known := range files {
			if strings.HasSuffix(known, "/"+name+"/dev") && !strings.Contains(known, "/slaves/") {
				files[filepath.Dir(known)+"/holders/"+words[1]+"/x"] = ""
			}
		}
	}
}

// run is a command on the machine, which may end with one of the codes.
func (a animal) run(t *testing.T, codes []int, args ...string) (out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := host.Run(context.Background(), append(args, "--root", a.root), strings.NewReader(""), &stdout, &stderr)
	if !slices.Contains(codes, code) {
		t.Errorf("isolio %s: exit %d, want %v\n%s%s", strings.Join(args, " "), code, codes, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String()
}

// readOnly are the commands whose output on each machine is in zoo/*.golden, with their exit codes.
var readOnly = []string{
	"status --interval 0", "doctor", "enable --all --dry-run", "enable / --dry-run", "weight nginx.service",
	"weight nginx.service 200 --dry-run", "explain nginx.service --interval 0", "top --interval 1ms", "daemon --check",
	"sla report",
}

// golden compares what the commands that only read print with a file, which -update rewrites.
func (a animal) golden(t *testing.T, file string) {
	t.Helper()
	var got strings.Builder
	for _, command := range readOnly {
		var out, errs bytes.Buffer
		code := host.Run(context.Background(), append(strings.Fields(command), "--root", a.root), strings.NewReader(""), &out, &errs)
		fmt.Fprintf(&got, "$ isolio %s\n%s%sexit %d\n\n", command, out.String(), errs.String(), code)
	}
	text := strings.ReplaceAll(got.String(), a.root, "")
	if *update {
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	}
	want, err := os.ReadFile(file)
	must.OK(t, err)
	if text != string(want) {
		t.Errorf("%s differs; -update writes:\n%s", file, text)
	}
}

var chosenDisk = regexp.MustCompile(`(?m)^echo 'kyber-fairness' > \S*?/sys/block/(\S+)/queue/scheduler$`)

// enabled are the disks to which a command would give the scheduler.
func (a animal) enabled(t *testing.T, codes []int, what string) string {
	t.Helper()
	out, _ := a.run(t, codes, "enable", what, "--dry-run")
	var names []string
	for _, match := range chosenDisk.FindAllStringSubmatch(out, -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// status is what the invariants need of `isolio status --json`.
type status struct {
	Disks []struct {
		Name      string   `json:"name"`
		On        []string `json:"on"`
		WeightsBy []string `json:"weights_by"`
		Remedy    string   `json:"remedy"`
	} `json:"disks"`
	NoCgroups string `json:"no_cgroups"`
}

// visit runs all that only reads on a machine, and compares what the commands say. It returns the
// number of remedies that were run.
func visit(t *testing.T, a animal) int {
	t.Helper()
	text, errs := a.run(t, []int{0, 3}, "status", "--interval", "0")
	doc, _ := a.run(t, []int{0, 3}, "status", "--interval", "0", "--json")
	a.narrow(t, text, "status", "--interval", "0")
	var s status
	must.OK(t, json.Unmarshal([]byte(doc), &s))
	if s.NoCgroups != "" != strings.Contains(errs, "isolio: "+s.NoCgroups+"\n") {
		t.Errorf("status has no cgroups: %q, and says %q", s.NoCgroups, errs)
	}

	doctor := map[string]int{"0": 0, "3": 3}[a.facts["doctor"]]
	report, _ := a.run(t, []int{doctor}, "doctor")
	a.narrow(t, report, "doctor")
	if fails := strings.Contains(report, " fails "); fails != (doctor == 3) {
		t.Errorf("doctor exits %d and says:\n%s", doctor, report)
	}

	// What --all takes is what status advises, and what was to be.
	all := a.enabled(t, []int{0, 3}, "--all")
	var advised []string
	for _, d := range s.Disks {
		// bfq shares already, and --all replaces it.
		if len(d.On) == 0 && (d.Remedy == "isolio enable "+d.Name || slices.Contains(d.WeightsBy, "bfq")) {
			advised = append(advised, d.Name)
		}
	}
	want := strings.Fields(a.facts["all"])
	slices.Sort(want)
	if strings.Join(want, " ") != all || strings.Join(advised, " ") != all {
		t.Errorf("enable --all takes %q, status advises %q, want %q", all, advised, want)
	}

	// What lies on disks leads to them by its name, and / does.
	for _, d := range s.Disks {
		if len(d.On) == 0 || strings.HasPrefix(d.Name, "nvme0c") {
			continue
		}
		on := slices.Sorted(slices.Values(d.On))
		if got := a.enabled(t, []int{0}, d.Name); got != strings.Join(on, " ") {
			t.Errorf("%s is on %q, and enable takes %q", d.Name, on, got)
		}
	}
	if a.facts["root"] == "none" {
		a.run(t, []int{2}, "enable", "/", "--dry-run")
	} else if got := a.enabled(t, []int{0}, "/"); got != a.facts["root"] {
		t.Errorf("/ is on %q, want %q", got, a.facts["root"])
	}

	codes := []int{0}
	if s.NoCgroups != "" {
		codes = []int{3}
	}
	for _, name := range names(t, a, s) {
		if codes[0] == 0 {
			a.narrow(t, "", "explain", name, "--interval", "0")
			a.narrow(t, "", "weight", name)
		}
		why, _ := a.run(t, codes, "explain", name, "--interval", "0")
		a.run(t, codes, "weight", name)
		text += why
		for _, d := range s.Disks {
			row := regexp.MustCompile(`(?m) acts +` + regexp.QuoteMeta(d.Name) + ` `)
			if row.MatchString(why) != (len(d.WeightsBy) > 0) {
				t.Errorf("status has weights act on %s by %q, and explain says:\n%s", d.Name, d.WeightsBy, why)
			}
		}
	}
	a.run(t, []int{0}, "daemon", "--check")
	a.run(t, []int{0, 3}, "sla", "report")

	a.run(t, []int{0, 3}, "log")
	for _, d := range s.Disks {
		a.run(t, []int{0, 2, 3}, "measure", d.Name, "--dry-run")
		a.run(t, []int{1, 2, 3}, "measure", d.Name, "--show")
	}

	remedies := tryAll(text+report, a.root)
	for _, r := range remedies {
		if r.Outcome == "refused" {
			t.Errorf("%q is refused: %s", r.Printed, r.Why)
		}
	}

	// A record of it is the same machine.
	copied := animal{record(t, a.root), nil}
	if got := copied.enabled(t, []int{0, 3}, "--all"); got != all {
		t.Errorf("on its record enable --all takes %q, want %q", got, all)
	}
	copied.run(t, []int{doctor}, "doctor")

	a.shared(t, codes, want)
	return len(remedies)
}

// narrow runs a command on a terminal of 80 columns, where no line is wider, and nothing of the text that
// it has on a wide one is lost but columns of tables.
func (a animal) narrow(t *testing.T, text string, args ...string) string {
	t.Helper()
	t.Setenv("COLUMNS", "80")
	out, errs := a.run(t, []int{0, 3}, args...)
	if out == "" {
		t.Errorf("isolio %s: prints nothing, and says %s", strings.Join(args, " "), errs)
	}
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("isolio %s: a line of %d columns: %s", strings.Join(args, " "), n, line)
		}
	}
	t.Setenv("COLUMNS", "")
	for _, match := range inWords.FindAllString(text, -1) {
		if !strings.Contains(strings.Join(strings.Fields(out), ""), strings.Join(strings.Fields(match), "")) {
			t.Errorf("isolio %s: on 80 columns there is no %q:\n%s", strings.Join(args, " "), match, out)
		}
	}
	return out
}

// inWords is what a command tells in words, at the end of a line.
var inWords = regexp.MustCompile(`(?m)remedy: .*$`)

// shared looks at the machine with its disks shared, where top has something to show. It calls cgroups
// as status does.
func (a animal) shared(t *testing.T, codes []int, disks []string) {
	t.Helper()
	if len(disks) == 0 || codes[0] != 0 {
		a.run(t, []int{3}, "top", "--interval", "1ms")
		return
	}
	stat := ""
	for _, name := range disks {
		dir := filepath.Join(a.root, "sys/block", name)
		number, err := os.ReadFile(filepath.Join(dir, "dev"))
		must.OK(t, err)
		stat += strings.TrimSpace(string(number)) + " rbytes=4096 wbytes=0 rios=1 wios=0 throttled_usec=0 weight=100 share_ppm=500000 rlat_ios=1 rlat_p50_usec=12000 rlat_p99_usec=51000\n"
		for file, content := range map[string]string{"scheduler": "none [kyber-fairness]\n", "iosched/share_by": "[bytes] iops time\n"} {
			testtree.File(t, filepath.Join(dir, "queue", file), content)
		}
	}
	tree := filepath.Join(a.root, "sys/fs/cgroup")
	if _, err := os.Stat(filepath.Join(tree, "unified/cgroup.controllers")); err == nil {
		tree = filepath.Join(tree, "unified")
	}
	testtree.File(t, filepath.Join(tree, "io.kyber.stat"), "")
	for _, group := range []string{"system.slice/nginx.service", "system.slice/cron.service"} {
		testtree.File(t, filepath.Join(tree, group, "io.kyber.stat"), stat)
	}
	shown := a.narrow(t, "", "top", "--interval", "1ms")
	status := a.narrow(t, "", "status", "--interval", "0", "--all")
	a.narrow(t, "", "doctor")
	for line := range strings.Lines(shown) {
		if name := strings.Fields(line)[0]; name != "CONTAINER" && !strings.Contains(status, name) {
			t.Errorf("top has %s, and status:\n%s", name, status)
		}
	}
	if strings.Count(shown, "nginx.service") != len(disks) {
		t.Errorf("%d disks, and top shows:\n%s", len(disks), shown)
	}
	a.narrow(t, "", "explain", "nginx.service", "--interval", "0")
}

// names are the cgroups of a machine.
func names(t *testing.T, a animal, s status) []string {
	t.Helper()
	if s.NoCgroups != "" {
		return []string{"nginx.service"}
	}
	out, _ := a.run(t, []int{0}, "status", "--interval", "0", "--all", "-o", "name")
	return strings.Fields(out)
}

// record is a tree made of a machine's bundle.
func record(t *testing.T, root string) string {
	t.Helper()
	var text bytes.Buffer
	_, err := bundle.Write(root, &text)
	must.OK(t, err)
	dir := t.TempDir()
	for in := tar.NewReader(&text); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		must.OK(t, err)
		content, err := io.ReadAll(in)
		must.OK(t, err)
		testtree.File(t, filepath.Join(dir, h.Name), string(content))
	}
}
