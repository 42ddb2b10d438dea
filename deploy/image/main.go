// SPDX-License-Identifier: MIT

// Command image makes a container image of files, as an OCI archive, without a container
// engine: what goes into `ctr image import` and `skopeo copy oci-archive:`. The same files
// make the same bytes: there are no times and no owners of files in it.
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	name := flag.String("name", "isolio:devel", "what the image is called, `NAME:TAG`")
	arch := flag.String("arch", "amd64", "the architecture of its programs")
	version := flag.String("version", "devel", "the version in its labels")
	out := flag.String("o", "", "the archive's `FILE`")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: image -o FILE [flags] DEST=SOURCE...: SOURCE is a file, or a directory with all that is in it")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*out, *name, *arch, *version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(out, name, arch, version string, specs []string) error {
	image, err := Image(arch, version, specs)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := Archive(f, image, name); err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return f.Close()
}

// file is one of the image's, by its path there.
type file struct {
	path, source string
	dir          bool
	executable   bool
}

// Image has one layer, of DEST=SOURCE.
func Image(arch, version string, specs []string) (v1.Image, error) {
	files, err := list(specs)
	if err != nil {
		return nil, err
	}
	layer, err := pack(files)
	if err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, mutate.Addendum{Layer: l, History: v1.History{CreatedBy: "isolio"}}); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: time.Unix(0, 0).UTC()}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/isolio"}, Env: []string{"PATH=/usr/bin"},
		Labels: map[string]string{"org.opencontainers.image.title": "isolio", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "MIT AND GPL-2.0-only"},
	}
	return mutate.ConfigFile(image, config)
}

// list is sorted, with the directories that files are in.
func list(specs []string) ([]file, error) {
	all := map[string]file{}
	add := func(f file) error {
		f.path = strings.TrimPrefix(path.Clean(f.path), "/")
		if old, there := all[f.path]; there && !old.dir {
			return fmt.Errorf("%s is there twice", f.path)
		}
		all[f.path] = f
		for dir := path.Dir(f.path); dir != "."; dir = path.Dir(dir) {
			all[dir] = file{path: dir, dir: true}
		}
		return nil
	}
	for _, spec := range specs {
		to, from, ok := strings.Cut(spec, "=")
		if !ok || to == "" || from == "" {
			return nil, fmt.Errorf("%q; allowed: DEST=SOURCE", spec)
		}
		err := filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				return fmt.Errorf("%s is not a file", name)
			}
			rel, err := filepath.Rel(from, name)
			if err != nil {
				return err
			}
			return add(file{path: path.Join(to, filepath.ToSlash(rel)), source: name, executable: info.Mode()&0o111 != 0})
		})
		if err != nil {
			return nil, err
		}
	}
	var files []file
	for _, f := range all {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return files, nil
}

// pack makes a tar of the files, of which nothing but names and contents tells.
func pack(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if f.dir {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: f.path + "/", Mode: 0o755, Format: tar.FormatUSTAR}); err != nil {
				return nil, err
			}
			continue
		}
		text, err := os.ReadFile(f.source)
		if err != nil {
			return nil, err
		}
		mode := int64(0o644)
		if f.executable {
			mode = 0o755
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: mode, Size: int64(len(text)), Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := w.Write(text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// fullName is what a kubelet has its runtime look for where a pod's image is called name:
// one without a host is of docker.io, and there of library if nothing is before it.
func fullName(name string) string {
	first, rest, _ := strings.Cut(name, "/")
	switch {
	case rest == "":
		return "docker.io/library/" + name
	case strings.ContainsAny(first, ".:") || first == "localhost":
		return name
	}
	return "docker.io/" + name
}

// Archive writes an OCI layout with the image as a tar.
func Archive(w io.Writer, image v1.Image, name string) error {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	_, tag, _ := strings.Cut(path.Base(name), ":")
	err = at.AppendImage(image, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag, "io.containerd.image.name": fullName(name),
	}))
	if err != nil {
		return err
	}
	files, err := list([]string{"/=" + dir})
	if err != nil {
		return err
	}
	for i := range files {
		files[i].executable = false
	}
	text, err := pack(files)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
