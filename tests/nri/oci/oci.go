// SPDX-License-Identifier: MIT

// Package oci makes a container image of one program, as an archive that
// `ctr image import` takes. The same program makes the same bytes.
package oci

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Program is the path of the program in the image.
const Program = "/pause"

// Archive is an image of that name, REPOSITORY:TAG, which starts the program.
func Archive(image string, program []byte) []byte {
	layer := archive(map[string][]byte{strings.TrimPrefix(Program, "/"): program})
	config := encode(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": []string{Program}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{sum(layer)}},
	})
	blob := func(kind string, data []byte) map[string]any {
		return map[string]any{"mediaType": "application/vnd.oci.image." + kind, "digest": sum(data), "size": len(data)}
	}
	manifest := encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": blob("config.v1+json", config), "layers": []any{blob("layer.v1.tar", layer)},
	})
	_, tag, _ := strings.Cut(image, ":")
	entry := blob("manifest.v1+json", manifest)
	entry["annotations"] = map[string]string{"io.containerd.image.name": image, "org.opencontainers.image.ref.name": tag}
	files := map[string][]byte{
		"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`),
		"index.json": encode(map[string]any{"schemaVersion": 2, "manifests": []any{entry}}),
	}
	for _, data := range [][]byte{layer, config, manifest} {
		files["blobs/sha256/"+strings.TrimPrefix(sum(data), "sha256:")] = data
	}
	return archive(files)
}

func sum(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

func encode(what any) []byte {
	text, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	return text
}

func archive(files map[string][]byte) []byte {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			panic(err)
		}
		if _, err := w.Write(files[name]); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return text.Bytes()
}
