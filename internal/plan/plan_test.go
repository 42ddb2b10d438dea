// SPDX-License-Identifier: MIT

package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"isolio/internal/must"
	"isolio/internal/testtree"
)

// recorder is a machine that writes down what is done to it.
type recorder struct {
	log  []string
	fail string // the entry that fails
}

func (r *recorder) do(entry string) error {
	r.log = append(r.log, entry)
	if entry == r.fail {
		return &fs.PathError{Op: "open", Path: "x", Err: syscall.EINVAL}
	}
	return nil
}

func (r *recorder) Run(command []string) error { return r.do(strings.Join(command, " ")) }
func (r *recorder) Mount(device, path, kind string) error {
	return r.do("mount " + kind + " " + device + " " + path)
}
func (r *recorder) Unmount(path string) error      { return r.do("unmount " + path) }
func (r *recorder) Mkdir(path string) error        { return r.do("mkdir " + path) }
func (r *recorder) Create(path, text string) error { return r.do("create " + path + " " + text) }
func (r *recorder) Remove(path string) error       { return r.do("remove " + path) }
func (r *recorder) Rmdir(path string) error        { return r.do("rmdir " + path) }
func (r *recorder) Read(path string) (string, error) {
	return "held", r.do("read " + path)
}
func (r *recorder) Write(path, value string) error { return r.do(path + "=" + value) }

func steps() []Step {
	return []Step{
		{Path: "scheduler", Value: "bfq", Undo: "none"},
		{Mkdir: true, Path: "a"},
		{Path: "a/weight", Value: "100"},
	}
}

func TestUndoGoesBackwards(t *testing.T) {
	var r recorder
	a := On(&r)
	must.OK(t, a.Apply(steps()))
	for range 2 { // the second does nothing
		must.OK(t, a.Undo())
	}
	want := []string{"scheduler=bfq", "mkdir a", "a/weight=100", "rmdir a", "scheduler=none"}
	if !slices.Equal(r.log, want) {
		t.Errorf("log %q, want %q", r.log, want)
	}
}

// Wherever it fails, exactly what was done is undone.
func TestUndoAfterAFailure(t *testing.T) {
	tests := []struct {
		fail string
		want []string
	}{
		{"scheduler=bfq", []string{"scheduler=bfq"}},
		{"mkdir a", []string{"scheduler=bfq", "mkdir a", "scheduler=none"}},
		{"a/weight=100", []string{"scheduler=bfq", "mkdir a", "a/weight=100", "rmdir a", "scheduler=none"}},
	}
	for _, tt := range tests {
		r := recorder{fail: tt.fail}
		a := On(&r)
		if err := a.Apply(steps()); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: Apply = %v", tt.fail, err)
		}
		if err := a.Undo(); err != nil {
			t.Errorf("%s: Undo = %v", tt.fail, err)
		}
		if !slices.Equal(r.log, tt.want) {
			t.Errorf("%s: log %q, want %q", tt.fail, r.log, tt.want)
		}
	}
}

func TestUndoGoesOnAfterAnError(t *testing.T) {
	r := recorder{fail: "rmdir a"}
	a := On(&r)
	must.OK(t, a.Apply(steps()))
	if err := a.Undo(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Undo = %v, want the error of rmdir", err)
	}
	if last := r.log[len(r.log)-1]; last != "scheduler=none" {
		t.Errorf("last action %q: the scheduler was not put back", last)
	}
}

func TestErrorsSayWhatWasWritten(t *testing.T) {
	r := recorder{fail: "scheduler=bfq"}
	err := On(&r).Apply(steps())
	if want := `write "bfq" to scheduler: invalid argument`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	s := steps()
	s[0].Explain = func(err error) error { return fmt.Errorf("no bfq here: %w", err) }
	r = recorder{fail: "scheduler=bfq"}
	if err = On(&r).Apply(s); err == nil || !strings.HasPrefix(err.Error(), "no bfq here: ") || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("explained error %v", err)
	}
}

func TestPrint(t *testing.T) {
	var b strings.Builder
	must.OK(t, Print(&b, steps()))
	if want := "echo 'bfq' > scheduler\nmkdir a\necho '100' > a/weight\n"; b.String() != want {
		t.Errorf("Print:\n%swant\n%s", b.String(), want)
	}
}

func TestOS(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "attribute")
	if err := (OS{}).Write(file, "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Write made a file that was not there: %v", err)
	}
	testtree.File(t, file, "something longer\n")
	must.OK(t, (OS{}).Write(file, "1"))
	if got, _ := os.ReadFile(file); string(got) != "1\n" {
		t.Errorf("file holds %q", got)
	}
	sub := filepath.Join(dir, "sub")
	must.OK(t, (OS{}).Mkdir(sub))
	must.OK(t, (OS{}).Rmdir(sub))
	if err := (OS{}).Rmdir(sub); err != nil {
		t.Errorf("Rmdir of what is gone: %v", err)
	}
	if err := (OS{}).Rmdir(file); err == nil {
		t.Error("Rmdir removed a file")
	}
}

// A file system is made before it is mounted, and unmounted before its
// directory goes; what a program did is not taken back.
func TestFilesystem(t *testing.T) {
	steps := []Step{
		{Mkdir: true, Path: "m"}, {Command: []string{"mkfs", "-q", "/dev/x"}}, {Mount: "/dev/x", Path: "m", Value: "ext4"},
	}
	want := []string{"mkdir m", "mkfs -q /dev/x", "mount ext4 /dev/x m", "unmount m", "rmdir m"}
	r := recorder{}
	a := On(&r)
	if err := errors.Join(a.Apply(steps), a.Undo()); err != nil || !slices.Equal(r.log, want) {
		t.Errorf("log %q, %v, want %q", r.log, err, want)
	}
	r = recorder{fail: "mount ext4 /dev/x m"}
	a = On(&r)
	if err := a.Apply(steps); !errors.Is(err, syscall.EINVAL) || a.Undo() != nil || !slices.Equal(r.log, append(slices.Clone(want[:3]), "rmdir m")) {
		t.Errorf("the mount fails: log %q, %v", r.log, err)
	}
	var b strings.Builder
	if err := Print(&b, steps); err != nil || b.String() != "mkdir m\nmkfs -q /dev/x\nmount -t ext4 /dev/x m\n" {
		t.Errorf("Print:\n%s", b.String())
	}
	if err := (OS{}).Run([]string{"sh", "-c", "echo no good; exit 3"}); err == nil || !strings.Contains(err.Error(), "exit status 3; it says: no good") {
		t.Errorf("Run = %v", err)
	}
	if err := (OS{}).Unmount(t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), "unmount ") {
		t.Errorf("Unmount of what is not mounted: %v", err)
	}
}

// A file that holds the value already is left alone.
func TestIfDiffers(t *testing.T) {
	for value, want := range map[string][]string{"held": {"read a"}, "other": {"read a", "a=other"}} {
		var r recorder
		if err := On(&r).Apply([]Step{{Path: "a", Value: value, IfDiffers: true}}); err != nil || !slices.Equal(r.log, want) {
			t.Errorf("%s: log %q, %v, want %q", value, r.log, err, want)
		}
	}
}

// A file that was not there goes again; one that was is put back.
func TestFiles(t *testing.T) {
	steps := []Step{
		{Create: true, Path: "new", Value: "1"}, {Create: true, Path: "old", Value: "2", Undo: "was"}, {Remove: true, Path: "gone", Undo: "had"},
	}
	want := []string{"create new 1", "create old 2", "remove gone", "create gone had", "create old was", "remove new"}
	var r recorder
	a := On(&r)
	if err := errors.Join(a.Apply(steps), a.Undo()); err != nil || !slices.Equal(r.log, want) {
		t.Errorf("log %q, %v, want %q", r.log, err, want)
	}
	var b strings.Builder
	text := "mkdir -p d\nprintf '%s\\n' a b > d/new\nrm d/gone\n'a b' --c=d 'it'\\''s'\n"
	steps = []Step{{Create: true, Path: "d/new", Value: "a\nb\n"}, {Remove: true, Path: "d/gone"}, {Command: []string{"a b", "--c=d", "it's"}}}
	if err := Print(&b, steps); err != nil || b.String() != text {
		t.Errorf("Print:\n%swant\n%s", b.String(), text)
	}
	file := filepath.Join(t.TempDir(), "d", "file")
	for _, text := range []string{"one\n", "two\n"} {
		must.OK(t, (OS{}).Create(file, text))
		if got, _ := os.ReadFile(file); string(got) != text {
			t.Errorf("file holds %q", got)
		}
	}
	for range 2 { // the second finds none
		if err := (OS{}).Remove(file); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}
