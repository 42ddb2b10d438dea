// SPDX-License-Identifier: MIT

// Package script runs the programs isolio and isolio-lab on scripts: one .txtar file for each
// behaviour, commands at its top, the files they need below. No script needs
// root, a virtual machine or fio. `go test ./tests/script -update` rewrites
// the files that a script compares output with.
package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"isolio/internal/cli"
	"isolio/internal/kernels"
	lab "isolio/internal/lab/command"
	"isolio/internal/table"
	"isolio/internal/testtree"
)

var update = flag.Bool("update", false, "rewrite the output that scripts expect")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"isolio": func() {
			cli.Main(func(ctx context.Context, args []string, _ io.Reader, _, _ io.Writer) int { return runIsolio(ctx, args) })
		},
		"isolio-lab": func() { cli.Main(lab.Run) },
	})
}

func TestScripts(t *testing.T) {
	remedies := t.TempDir()
	t.Cleanup(func() { checkRemedies(t, remedies) })
	testscript.Run(t, testscript.Params{
		Dir:           ".",
		UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cmpjson":   cmpJSON,
			"badinputs": badInputs,
			"refuses":   refuses,
			"systemd":   systemd,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv(remedyLog, remedies)
			env.Setenv("KERNELS", strings.Join(kernels.EveryChange(), ", "))
			// The shipped experiments, as a reader of the README has them, and results.
			return errors.Join(
				plant(env.WorkDir, filepath.Join(env.WorkDir, "tree")),
				os.CopyFS(env.WorkDir+"/experiments", os.DirFS("../../experiments")),
				os.CopyFS(env.WorkDir+"/results", os.DirFS("../../results")),
			)
		},
	})
}

// plant writes the small files that a list names, a line `PATH = TEXT` for each. A line
// `< FILE` stands for the list FILE of this directory. Files that are there stay.
func plant(dir, list string) error {
	text, err := os.ReadFile(list)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if shared, ok := strings.CutPrefix(line, "< "); ok {
			err = errors.Join(err, plant(dir, strings.TrimSpace(shared)))
			continue
		}
		name, content, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " =")
		if !ok {
			return fmt.Errorf("%s: %q is not PATH = TEXT", list, line)
		}
		if content = strings.TrimPrefix(content, " "); content != "" {
			content += "\n"
		}
		file := filepath.Join(dir, name)
		if _, statErr := os.Stat(file); statErr == nil {
			continue
		}
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644))
	}
	return err
}

// cmpJSON compares `cmpjson FILE WANT` without white space, so that a script may have an
// object a line.
func cmpJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cmpjson FILE WANT")
	}
	var texts [2]bytes.Buffer
	for i, name := range args {
		ts.Check(json.Indent(&texts[i], []byte(ts.ReadFile(name)), "", " "))
	}
	if got, want := texts[0].String(), texts[1].String(); got != want {
		ts.Fatalf("%s:\n%s\nwant %s:\n%s", args[0], got, args[1], want)
	}
}

// refuses runs `refuses CODE PROGRAM ARG...`: the program must exit with CODE,
// print nothing, and say why in one line on stderr, which `stderr` and `cmp`
// can look at next.
func refuses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: refuses CODE PROGRAM ARG...")
	}
	if wrong := wrongRefusal(ts, args); wrong != "" {
		ts.Fatalf("%s", wrong)
	}
}

// wrongRefusal runs `CODE PROGRAM ARG...`, and says what is not as refuses has it.
func wrongRefusal(ts *testscript.TestScript, args []string) string {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	var exit *exec.ExitError
	switch {
	case !errors.As(err, &exit):
		return fmt.Sprintf("%s: %v, want exit status %d", args[1], err, want)
	case exit.ExitCode() != want:
		return fmt.Sprintf("exit status %d, want %d: %q", exit.ExitCode(), want, stderr)
	case stdout != "":
		return fmt.Sprintf("stdout is not empty: %q", stdout)
	case !strings.HasPrefix(stderr, "isolio: ") || strings.Count(stderr, "\n") != 1:
		return fmt.Sprintf("stderr is not one line of isolio's: %q", stderr)
	}
	// The terminal has 80 columns, and lines after the first an indent.
	text := strings.ReplaceAll(strings.TrimSpace(stderr), ts.MkAbs("."), "")
	lines := table.Wrap(text, 76)
	if len(lines) > 4 {
		return fmt.Sprintf("more than 4 lines on a terminal: %q", text)
	}
	for _, line := range lines {
		if len([]rune(line)) > 76 {
			return fmt.Sprintf("wider than a terminal of 80 columns: %q", line)
		}
	}
	return ""
}

// badInputs runs `badinputs FILE DIR`: each line of FILE is `CODE | COMMAND | WANT`, a command of a
// shell that is refused, and a regexp for why. What is below DIR stays as it is.
func badInputs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: badinputs FILE DIR")
	}
	before, failed := listing(ts, args[1]), 0
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " | ", 3)
		if len(fields) != 3 {
			ts.Fatalf("%q is not CODE | COMMAND | WANT", line)
		}
		wrong := wrongRefusal(ts, []string{strings.TrimSpace(fields[0]), "sh", "-c", fields[1]})
		if why := strings.TrimPrefix(ts.ReadFile("stderr"), "isolio: "); wrong == "" && !regexp.MustCompile(fields[2]).MatchString(strings.TrimSuffix(why, "\n")) {
			wrong = fmt.Sprintf("%q, want %s", why, fields[2])
		}
		if now := listing(ts, args[1]); wrong == "" && now != before {
			wrong, before = "changed what is below "+args[1]+":\n"+now, now
		}
		if wrong != "" {
			ts.Logf("%s: %s", fields[1], wrong)
			failed++
		}
	}
	if failed > 0 {
		ts.Fatalf("%d are not refused as they should be", failed)
	}
}

// listing has all below a directory, with what is in files.
func listing(ts *testscript.TestScript, dir string) string {
	var all strings.Builder
	root := os.DirFS(ts.MkAbs(dir))
	ts.Check(fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			fmt.Fprintln(&all, name)
			return err
		}
		text, err := fs.ReadFile(root, name)
		fmt.Fprintf(&all, "%s %q\n", name, text)
		return err
	}))
	return all.String()
}

// systemd runs `systemd ROOT FILE`: from here on, systemd answers below ROOT of the units in FILE, which are as
// `systemctl show` prints them.
func systemd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: systemd ROOT FILE")
	}
	file := ts.MkAbs(args[1])
	stop, err := testtree.ServeSystemd(ts.MkAbs(args[0]), func() string {
		text, _ := os.ReadFile(file) // without it there are no units
		return string(text)
	})
	ts.Check(err)
	ts.Defer(stop)
}
