// SPDX-License-Identifier: MIT

package report

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"isolio/internal/failure"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

func TestWriteReplaces(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target.html")
	link := filepath.Join(dir, "link.html")
	testtree.File(t, target, "old")
	must.OK(t, os.Symlink("target.html", link))
	must.OK(t, Write(link, document()))
	page, err := os.ReadFile(target)
	must.OK(t, err)
	if string(page) != render(t, document()) {
		t.Error("the file is not the page")
	}
	if fi, err := os.Lstat(link); err != nil || fi.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is no longer one: %v, %v", fi, err)
	}
	if fi, err := os.Stat(target); err != nil || fi.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v, want 0644", fi.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("files left over: %v, %v", entries, err)
	}
}

func TestWriteIntoPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.OK(t, syscall.Mkfifo(pipe, 0o600))
	got := make(chan string, 1)
	go func() {
		defer close(got)
		f, err := os.Open(pipe)
		if err != nil {
			return
		}
		defer func() { _ = f.Close() }()
		page, _ := io.ReadAll(f)
		got <- string(page)
	}()
	must.OK(t, Write(pipe, document()))
	select {
	case page := <-got:
		if page != render(t, document()) {
			t.Error("the reader of the pipe did not get the page")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the reader of the pipe got nothing in 5 s")
	}
	if fi, err := os.Stat(pipe); err != nil || fi.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe was replaced: %v, %v", fi, err)
	}
}

func TestBadPaths(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	for _, tt := range []struct{ path, says string }{
		{"", "give one"},
		{dir, "is a directory"},
		{filepath.Join(dir, "no", "page.html"), "make it first"},
		{filepath.Join(file, "page.html"), "not a directory"},
	} {
		err := Write(tt.path, document())
		if failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: error %v (code %d), want a usage error that says %q",
				tt.path, err, failure.Code(err), tt.says)
		}
	}
	if err := CheckPath(filepath.Join(dir, "new.html")); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("files left over: %v, %v", entries, err)
	}
}

// A page is not written over what is on a disk.
func TestADiskIsNoFile(t *testing.T) {
	disk := filepath.Join(t.TempDir(), "disk")
	// Of a number that no driver has: nothing could be written to it.
	if err := syscall.Mknod(disk, syscall.S_IFBLK|0o600, 255<<8|255); err != nil {
		t.Skipf("a disk's node: %v; only root makes one", err)
	}
	for what, err := range map[string]error{"CheckPath": CheckPath(disk), "Write": Write(disk, document())} {
		if failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), "is a disk") {
			t.Errorf("%s: error %v, want a usage error", what, err)
		}
	}
	if err := CheckPath("/dev/null"); err != nil {
		t.Errorf("/dev/null: %v", err)
	}
}

func TestFailedWriteKeepsTheOldPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	testtree.File(t, path, "old")
	doc := document()
	doc.Runs = nil
	if err := Write(path, doc); err == nil {
		t.Fatal("a document without runs was written")
	}
	if page, err := os.ReadFile(path); err != nil || string(page) != "old" {
		t.Errorf("the old page is now %q, %v", page, err)
	}
}
