// SPDX-License-Identifier: MIT

package kmod

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	"isolio/internal/must"
	"isolio/internal/testtree"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// A module is found, and its record read, whatever it is compressed with.
func TestInstalled(t *testing.T) {
	text, err := os.ReadFile(module(t))
	must.OK(t, err)
	for ext, packer := range map[string]func(io.Writer) (io.WriteCloser, error){
		"":     func(w io.Writer) (io.WriteCloser, error) { return plain{w}, nil },
		".gz":  func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		".xz":  func(w io.Writer) (io.WriteCloser, error) { return xz.NewWriter(w) },
		".zst": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		root := t.TempDir()
		file := "updates/dkms/kyber-fairness-iosched.ko" + ext
		path := filepath.Join(root, "lib/modules/6.1.0", file)
		var packed bytes.Buffer
		w, err := packer(&packed)
		must.OK(t, err)
		if _, err = w.Write(text); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{path: packed.String(), filepath.Join(root, "lib/modules/6.1.0/modules.dep"): "kernel/block/bfq.ko:\n" + file + ": kernel/a.ko\n"} {
			testtree.File(t, name, text)
		}
		if got, err := Installed(root, "6.1.0", "kyber-fairness-iosched"); err != nil || got != path {
			t.Errorf("Installed = %q, %v; want %s", got, err, path)
		}
		for release, name := range map[string]string{"6.1.0": "fairness", "6.2.0": "bfq"} {
			if got, err := Installed(root, release, name); err != nil || got != "" {
				t.Errorf("%s of %s: %q, %v", name, release, got, err)
			}
		}
		if err := CheckLayout(path, build(t, elevators(false)...)); err != nil {
			t.Error(err)
		}
		if err := CheckLayout(path, build(t, elevators(true)...)); err == nil {
			t.Errorf("%s: fits another kernel", file)
		}
		if signed, err := Signed(path); err != nil || signed {
			t.Errorf("%s: signed %v, %v", file, signed, err)
		}
	}
	broken := filepath.Join(t.TempDir(), "x.ko.xz")
	must.OK(t, os.WriteFile(broken, text, 0o644))
	if _, err := ReadModule(broken); err == nil {
		t.Error("no error for a file that is not what its name says")
	}
	signed := filepath.Join(t.TempDir(), "x.ko")
	must.OK(t, os.WriteFile(signed, append(text, "~Module signature appended~\n"...), 0o644))
	if is, err := Signed(signed); err != nil || !is {
		t.Errorf("signed: %v, %v", is, err)
	}
}

type plain struct{ io.Writer }

func (plain) Close() error { return nil }
