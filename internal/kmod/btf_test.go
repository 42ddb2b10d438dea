// SPDX-License-Identifier: MIT

package kmod

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"isolio/internal/failure"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

func rawBTF(t testing.TB) []byte {
	t.Helper()
	b, err := btf.NewBuilder(elevators(false), nil)
	must.OK(t, err)
	raw, err := b.Marshal(nil, nil)
	must.OK(t, err)
	return raw
}

// vmlinux is an ELF file with a section of the given name.
func vmlinux(t testing.TB, section string, contents []byte) []byte {
	t.Helper()
	dir := t.TempDir()
	var source strings.Builder
	fmt.Fprintf(&source, "__attribute__((section(%q))) const unsigned char contents[] = {", section)
	for _, b := range contents {
		fmt.Fprintf(&source, "%d,", b)
	}
	source.WriteString("};\n")
	name := filepath.Join(dir, "vmlinux.c")
	testtree.File(t, name, source.String())
	if out, err := exec.Command("gcc", "-c", "-o", filepath.Join(dir, "vmlinux"), name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "vmlinux"))
	must.OK(t, err)
	return data
}

// image is a kernel image with one sector of setup code and a payload.
func image(payload []byte) []byte {
	data := make([]byte, 1024, 1024+16+len(payload))
	data[imageSetupSectors] = 1
	copy(data[imageMagic:], "HdrS")
	binary.LittleEndian.PutUint32(data[imagePayloadOffset:], 16)
	binary.LittleEndian.PutUint32(data[imagePayloadLength:], uint32(len(payload)))
	return append(append(data, make([]byte, 16)...), payload...)
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	return packed(t, &b, gzip.NewWriter(&b), data)
}

func xzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	zip, err := xz.NewWriter(&b)
	must.OK(t, err)
	return packed(t, &b, zip, data)
}

// zstdPacked is packed with the window that the kernel's build packs with.
func zstdPacked(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	zip, err := zstd.NewWriter(&b, zstd.WithWindowSize(zstdWindow), zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	must.OK(t, err)
	return packed(t, &b, zip, data)
}

// bzippedHello is "hello\n" packed by bzip2, which Go cannot, with its size.
var bzippedHello = []byte("BZh91AY&SY\xc1\xc0\x80\xe2\x00\x00\x01\x41\x00\x00\x10\x02\x44\xa0\x00" +
	"\x30\xcd\x00\xc3\x46\x29\x97\x17\x72\x45\x38\x50\x90\xc1\xc0\x80\xe2\x06\x00\x00\x00")

// packed is data as zip packs it into b, with the unpacked size that the kernel's
// build appends.
func packed(t testing.TB, b *bytes.Buffer, zip io.WriteCloser, data []byte) []byte {
	t.Helper()
	if _, err := zip.Write(data); err != nil {
		t.Fatal(err)
	}
	must.OK(t, zip.Close())
	return binary.LittleEndian.AppendUint32(b.Bytes(), uint32(len(data)))
}

// lz4Literals packs data without matches, in blocks of the given size.
func lz4Literals(data []byte, block int) []byte {
	out := bytes.Clone(lz4LegacyMagic)
	for at := 0; at < len(data); at += block {
		part := data[at:min(at+block, len(data))]
		packed := []byte{byte(min(len(part), 15)) << 4}
		if rest := len(part) - 15; rest >= 0 {
			for ; rest >= 255; rest -= 255 {
				packed = append(packed, 255)
			}
			packed = append(packed, byte(rest))
		}
		packed = append(packed, part...)
		out = binary.LittleEndian.AppendUint32(out, uint32(len(packed)))
		out = append(out, packed...)
	}
	return binary.LittleEndian.AppendUint32(out, uint32(len(data)))
}

func TestReadBTF(t *testing.T) {
	raw := rawBTF(t)
	elf := vmlinux(t, ".BTF", raw)
	truncated := image(gzipped(t, elf))
	for _, test := range []struct {
		name string
		data []byte
		want string // in the error; empty: the BTF is found
	}{
		{"raw", raw, ""},
		{"vmlinux", elf, ""},
		{"gzip image", image(gzipped(t, elf)), ""},
		{"xz image", image(xzipped(t, elf)), ""},
		{"damaged xz image", image(xzipped(t, elf)[:200]), "damaged kernel image"},
		{"lz4 image", image(lz4Literals(elf, 1000)), ""},
		{"vmlinux without BTF", vmlinux(t, ".other", raw), "no .BTF section"},
		{"zstd image", image(zstdPacked(t, elf)), ""},
		{"damaged zstd image", image(zstdPacked(t, elf)[:200]), "damaged kernel image"},
		{"bzip2 image", image(bzippedHello), "damaged ELF file"},
		{"damaged bzip2 image", image(bzippedHello[:30]), "damaged kernel image"},
		{"lzo image", image([]byte("\x89LZO\x00\x0d\x0a")), "something other than gzip, xz, lz4, zstd or bzip2"},
		{"truncated image", truncated[:len(truncated)-100], "payload lies outside"},
		{"damaged image", image(gzipped(t, elf)[:200]), "damaged kernel image"},
		{"text", []byte("hello"), "neither raw BTF"},
		{"damaged vmlinux", elf[:20], "damaged ELF"},
	} {
		name := filepath.Join(t.TempDir(), "file")
		must.OK(t, os.WriteFile(name, test.data, 0o644))
		got, err := ReadBTF(name)
		switch {
		case test.want == "":
			if err != nil || !bytes.Equal(got, raw) {
				t.Errorf("%s: got %d bytes, error %v, want the BTF's %d bytes", test.name, len(got), err, len(raw))
			}
		case err == nil || !strings.Contains(err.Error(), test.want) || failure.Code(err) != failure.Usage:
			t.Errorf("%s: got error %v, want %q", test.name, err, test.want)
		}
	}
	if _, err := LoadSpec(filepath.Join(t.TempDir(), "absent")); failure.Code(err) != failure.Usage {
		t.Errorf("an absent file gave %v", err)
	}
}

// Damaged data is refused or unpacked to something, but never crashes.
func TestLZ4Damaged(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	whole := lz4Literals(bytes.Repeat([]byte("scheduler"), 500), 777)
	for range 5000 {
		data := bytes.Clone(whole)
		for range 1 + random.IntN(4) {
			data[len(lz4LegacyMagic)+random.IntN(len(data)-len(lz4LegacyMagic)-4)] = byte(random.Uint32())
		}
		out, err := unpackLZ4Legacy(data[:random.IntN(len(data)+1)])
		if err == nil && len(out) > len(whole) {
			t.Fatalf("%d bytes came out of %d", len(out), len(data))
		}
	}
}
