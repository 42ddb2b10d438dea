// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"isolio/internal/failure"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// runCommand calls the command and returns its exit code and what it printed.
func runCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(context.Background(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestKmodCommands(t *testing.T) {
	dir := t.TempDir()
	b, err := btf.NewBuilder([]btf.Type{&btf.Struct{Name: "elevator_type", Size: 4, Members: []btf.Member{
		{Name: "nr", Type: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}},
	}}}, nil)
	must.OK(t, err)
	raw, err := b.Marshal(nil, nil)
	must.OK(t, err)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testtree.File(t, path, text)
		return path
	}
	kernel := write("vmlinux.btf", string(raw))
	list := write("list.txt", "struct elevator_type\n")
	bad := write("bad.txt", "struct elevator_type\nstrict x\n")
	output := filepath.Join(dir, "out.h")

	for _, test := range []struct {
		args   []string
		code   int
		stdout string // contained in it
		stderr string
	}{
		{[]string{"kmod", "header", "--btf", kernel, list}, failure.OK, "\nstruct elevator_type {\n\tint nr;\n};\n", ""},
		{[]string{"kmod", "header", "--btf", kernel, "-o", output, list}, failure.OK, "", ""},
		{[]string{"kmod", "header", "--btf", kernel, "--module-version", "0.1.0+git2.gabc", list}, failure.OK, "\nMODULE_VERSION(\"0.1.0+git2.gabc\"); \\\n", ""},
		{[]string{"kmod", "header", "--btf", kernel, "--module-version", "one", list}, failure.Usage, "", `--module-version: "one"; allowed: digits`},
		{[]string{"kmod", "btf", kernel}, failure.OK, string(raw), ""},
		{[]string{"kmod", "header", "--btf", kernel}, failure.Usage, "", "got 0 arguments, want 1 or more"},
		{[]string{"kmod", "header", "--btf", kernel, bad}, failure.Usage, "", bad + ":2: strict: unknown word"},
		{[]string{"kmod", "header", "--btf", list, list}, failure.Usage, "", list + ": neither raw BTF"},
		{[]string{"kmod", "header", "--btf", kernel, "--headers", dir, list}, failure.Usage, "", dir + ": no headers"},
		{[]string{"kmod", "header", "--btf", kernel, "--symvers", output + ".absent", list}, failure.Usage, "", "no such file"},
		{[]string{"kmod", "check", "--btf", kernel, list}, failure.Usage, "", list + ": not a kernel module"},
		{[]string{"kmod", "load", list}, failure.Usage, "", list + ": not a kernel module"},
		{[]string{"kmod", "strip"}, failure.Usage, "", "isolio: kmod: strip: no such command; allowed: btf, check, header, load, unload"},
	} {
		if test.args[1] == "load" {
			if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
				test.code, test.stderr = failure.Unsupported, "CONFIG_DEBUG_INFO_BTF"
			}
		}
		code, stdout, stderr := runCommand(t, test.args...)
		if code != test.code || !strings.Contains(stdout, test.stdout) || !strings.Contains(stderr, test.stderr) {
			t.Errorf("%v: code %d, stdout %q, stderr %q; want %d, %q, %q",
				test.args, code, stdout, stderr, test.code, test.stdout, test.stderr)
		}
		if lines := strings.Count(stderr, "\n"); code != failure.OK && lines != 1 {
			t.Errorf("%v: %d lines on stderr, want one: %q", test.args, lines, stderr)
		}
	}
	_, stdout, _ := runCommand(t, "kmod", "header", "--btf", kernel, list)
	written, err := os.ReadFile(output)
	if err != nil || string(written) != stdout {
		t.Errorf("-o wrote %q, %v, want %q", written, err, stdout)
	}
}
