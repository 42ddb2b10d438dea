// SPDX-License-Identifier: MIT

package kmod

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// Installed finds the file of a module that modprobe would load for a kernel
// release, on the machine below root ("" for /); "" if there is none.
func Installed(root, release, name string) (string, error) {
	dir := filepath.Join("/", root, "lib/modules", release)
	dep, err := os.ReadFile(filepath.Join(dir, "modules.dep"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(dep)) {
		file, _, _ := strings.Cut(line, ":")
		base, _, _ := strings.Cut(filepath.Base(file), ".ko")
		if asKernel(base) == asKernel(name) {
			return filepath.Join(dir, file), nil
		}
	}
	return "", nil
}

// asKernel is a module's name as the kernel has it.
func asKernel(name string) string {
	return strings.ReplaceAll(name, "-", "_")
}

// ReadModule reads a module file, which may be compressed, as modprobe takes it.
func ReadModule(ko string) ([]byte, error) {
	data, err := os.ReadFile(ko)
	if err != nil {
		return nil, err
	}
	if data, err = unpackModule(ko, data); err != nil {
		return nil, fmt.Errorf("%s: damaged: %w", ko, err)
	}
	return data, nil
}

func unpackModule(ko string, data []byte) ([]byte, error) {
	var in io.Reader
	var err error
	switch filepath.Ext(ko) {
	case ".xz":
		in, err = xz.NewReader(bytes.NewReader(data), xz.DefaultDictMax)
	case ".gz":
		in, err = gzip.NewReader(bytes.NewReader(data))
	case ".zst":
		var frames *zstd.Decoder
		// One at a time, and no larger window than what may come out.
		if frames, err = zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(uint64(min(unpackedMax, 128<<20)))); err == nil {
			defer frames.Close()
			in = frames
		}
	default:
		return data, nil
	}
	if err != nil {
		return nil, err
	}
	return readUnpacked(in)
}

// Signed reports whether a module carries a signature, which the kernel may or
// may not trust. It is at the end of the file.
func Signed(ko string) (bool, error) {
	data, err := ReadModule(ko)
	return bytes.HasSuffix(data, []byte("~Module signature appended~\n")), err
}
