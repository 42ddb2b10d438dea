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
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"isolio/internal/kernels"
	lab "isolio/internal/lab/command"
	"isolio/internal/testtree"
)

var update = flag.Bool("update", false, "rewrite the output that scripts expect")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"isolio": func() {
			// As the program's own main has it.
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			context.AfterFunc(ctx, stop)
			os.Exit(runIsolio(ctx, os.Args[1:]))
		},
		"isolio-lab": func() {
			os.Exit(lab.Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

func TestScripts(t *testing.T) {
	remedies := t.TempDir()
	t.Cleanup(func() { checkRemedies(t, remedies) })
	testscript.Run(t, testscript.Params{
		Dir:           ".",
		UpdateScripts: *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"cmpjson": cmpJSON,
			"refuses": refuses,
			"systemd": systemd,
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
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		ts.Fatalf("%s: %v, want exit status %d", args[1], err, want)
	}
	if got := exit.ExitCode(); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
	if stdout := ts.ReadFile("stdout"); stdout != "" {
		ts.Fatalf("stdout is not empty: %q", stdout)
	}
	stderr := ts.ReadFile("stderr")
	if !strings.HasPrefix(stderr, "isolio: ") || strings.Count(stderr, "\n") != 1 {
		ts.Fatalf("stderr is not one line of isolio's: %q", stderr)
	}
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
