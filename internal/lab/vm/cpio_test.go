// SPDX-License-Identifier: MIT

package vm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"isolio/internal/must"
)

// The format is checked by hand here: one file, all fields known.
func TestArchiveBytes(t *testing.T) {
	a := newArchive()
	must.OK(t, a.addBytes("/hi", 0o644, []byte("abcde")))
	var got bytes.Buffer
	n, err := a.writeTo(&got, 512)
	must.OK(t, err)
	zero := "00000000"
	want := "070701" + "00000001" + "000081A4" + zero + zero + "00000001" + "6955B900" + "00000005" +
		zero + zero + zero + zero + "00000003" + zero + "hi\x00" + "\x00\x00\x00" + "abcde\x00\x00\x00" +
		"070701" + zero + zero + zero + zero + "00000001" + "6955B900" + zero +
		zero + zero + zero + zero + "0000000B" + zero + "TRAILER!!!\x00"
	want += strings.Repeat("\x00", 512-len(want))
	if got.String() != want {
		t.Errorf("got  %q\nwant %q", got.String(), want)
	}
	if n != 512 {
		t.Errorf("length %d, want 512", n)
	}
	if at := time.Unix(archiveMTime, 0).UTC().Format(time.DateOnly); at != "2026-01-01" {
		t.Errorf("time stamp is %s", at)
	}
}

// Neither the order of additions nor the host's file times and modes show.
func TestArchiveReproducible(t *testing.T) {
	build := func(reverse bool, mode os.FileMode, at time.Time) []byte {
		t.Helper()
		dir := t.TempDir()
		var adds []func() error
		a := newArchive()
		for i := range 20 {
			host := filepath.Join(dir, fmt.Sprint("f", i))
			must.OK(t, os.WriteFile(host, bytes.Repeat([]byte{byte(i)}, i*37), mode))
			must.OK(t, os.Chtimes(host, at, at))
			name := fmt.Sprintf("/d%d/e/f%d", i%3, i)
			adds = append(adds, func() error { return a.addFile(name, 0o755, host) })
		}
		adds = append(adds, func() error { return a.addSymlink("/lib", "usr/lib") }, func() error { return a.addDir("/d1") })
		for i := range adds {
			if reverse {
				i = len(adds) - 1 - i
			}
			must.OK(t, adds[i]())
		}
		var out bytes.Buffer
		if _, err := a.writeTo(&out, 4096); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	one := build(false, 0o600, time.Unix(1, 0))
	two := build(true, 0o755, time.Now())
	if !bytes.Equal(one, two) {
		t.Error("two archives of the same contents differ")
	}
	if len(one)%4096 != 0 {
		t.Errorf("length %d is not padded to 4096", len(one))
	}
}

func TestArchiveOrderAndParents(t *testing.T) {
	a := newArchive()
	for _, name := range []string{"/z/a", "/a/b/c", "a/b.x"} {
		must.OK(t, a.addBytes(name, 0o644, nil))
	}
	var out bytes.Buffer
	if _, err := a.writeTo(&out, 4); err != nil {
		t.Fatal(err)
	}
	last := -1
	for _, name := range []string{"a", "a/b", "a/b.x", "a/b/c", "z", "z/a", "TRAILER!!!"} {
		at := bytes.Index(out.Bytes(), []byte("00000000"+name+"\x00"))
		if at <= last {
			t.Errorf("%s is at %d, after a member at %d", name, at, last)
		}
		last = at
	}
}

func TestArchiveRefuses(t *testing.T) {
	a := newArchive()
	must.OK(t, a.addBytes("/x", 0o644, nil))
	if err := a.addBytes("x", 0o644, []byte("other")); err == nil || !strings.Contains(err.Error(), "/x is there twice") {
		t.Errorf("the same name twice: %v", err)
	}
	if err := a.addBytes("/x/y", 0o644, nil); err == nil {
		t.Error("a file below a file was taken")
	}
	if err := a.addBytes("/", 0o644, nil); err == nil {
		t.Error("a file named / was taken")
	}
	must.OK(t, a.addFile("/gone", 0o644, filepath.Join(t.TempDir(), "gone")))
	if _, err := a.writeTo(&bytes.Buffer{}, 4); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("a host file that is not there: %v", err)
	}
}

// Contenders' second parts have one length whatever they hold.
func TestTailLength(t *testing.T) {
	dir := t.TempDir()
	size := func(m manifest, data map[string][]byte) int64 {
		t.Helper()
		file := filepath.Join(dir, "initramfs")
		n, err := writeInitramfs(file, strings.NewReader(strings.Repeat("b", 8192)), m, data)
		must.OK(t, err)
		if st, err := os.Stat(file); err != nil || st.Size() != n {
			t.Fatalf("wrote %d bytes, the file: %v, %v", n, st, err)
		}
		return n
	}
	small := size(manifest{Argv: []string{"/init"}}, nil)
	large := size(manifest{Argv: []string{"/init", "kyber-fairness"}}, map[string][]byte{"/isolio/e": make([]byte, 9000)})
	if small != 8192+tailBytes || large != small {
		t.Errorf("lengths %d and %d, want %d", small, large, 8192+tailBytes)
	}
}

func TestMemory(t *testing.T) {
	for _, c := range []struct {
		initramfs  int64
		work, want int
	}{
		{0, 192, 192}, {0, 193, 256}, {96 << 20, 192, 384}, {97 << 20, 192, 448}, {96 << 20, 512, 704},
	} {
		if got := memoryMiB(c.initramfs, c.work); got != c.want {
			t.Errorf("memoryMiB(%d, %d) = %d, want %d", c.initramfs, c.work, got, c.want)
		}
	}
}
