// SPDX-License-Identifier: MIT

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// tree is a program and modules, of another age each time.
func tree(t *testing.T, age time.Duration) string {
	t.Helper()
	dir := t.TempDir()
	for file, mode := range map[string]os.FileMode{"bin/isolio": 0o700, "modules/6.1.0-1/a.ko": 0o600, "modules/6.12.0-1/a.ko": 0o664} {
		name := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(file), mode); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(name, when, when); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func build(t *testing.T, dir string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "image.tar")
	if err := run(out, "isolio:1", "amd64", "1", []string{"/usr/bin/isolio=" + dir + "/bin/isolio", "/opt/lib/modules=" + dir + "/modules"}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Two builds have the same bytes, whatever the files' times and the place they lie at.
func TestSameBytes(t *testing.T) {
	first, second := build(t, tree(t, 0)), build(t, tree(t, 1000*time.Hour))
	if !bytes.Equal(first, second) {
		t.Errorf("%d and %d bytes, not the same", len(first), len(second))
	}
}

// It is an image as the standard has it, of just these files.
func TestImage(t *testing.T) {
	dir := t.TempDir()
	archive := tar.NewReader(bytes.NewReader(build(t, tree(t, 0))))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			if err := os.MkdirAll(name, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["io.containerd.image.name"] != "docker.io/library/isolio:1" {
		t.Fatalf("%+v, %v", manifest, err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	text, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(text); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%+v", h)
		}
		names = append(names, h.FileInfo().Mode().String()+" "+h.Name)
	}
	want := []string{"drwxr-xr-x opt/", "drwxr-xr-x opt/lib/", "drwxr-xr-x opt/lib/modules/", "drwxr-xr-x opt/lib/modules/6.1.0-1/", "-rw-r--r-- opt/lib/modules/6.1.0-1/a.ko",
		"drwxr-xr-x opt/lib/modules/6.12.0-1/", "-rw-r--r-- opt/lib/modules/6.12.0-1/a.ko", "drwxr-xr-x usr/", "drwxr-xr-x usr/bin/", "-rwxr-xr-x usr/bin/isolio"}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

func TestBadSpecs(t *testing.T) {
	dir := tree(t, 0)
	for spec, want := range map[string]string{
		"x": "allowed: DEST=SOURCE", "=x": "allowed: DEST=SOURCE", "/x=" + dir + "/none": "no such file", "/usr/bin/a=" + dir + "/bin/isolio": "usr/bin/a is there twice",
	} {
		_, err := Image("amd64", "1", []string{"/usr/bin/a=" + dir + "/bin/isolio", spec})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
	}
}

// A kubelet finds an image that was imported, by the name that a pod has for it.
func TestFullName(t *testing.T) {
	for name, want := range map[string]string{
		"isolio:1":                      "docker.io/library/isolio:1",
		"team/isolio:1":                 "docker.io/team/isolio:1",
		"registry.example.com/isolio:1": "registry.example.com/isolio:1",
		"localhost:5000/isolio:1":       "localhost:5000/isolio:1",
		"localhost/isolio:1":            "localhost/isolio:1",
	} {
		if got := fullName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
