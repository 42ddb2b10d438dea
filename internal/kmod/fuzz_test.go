// SPDX-License-Identifier: MIT

package kmod

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
	"github.com/klauspost/compress/zstd"

	"isolio/internal/fuzzlimit"
	"isolio/internal/must"
)

const mib = 1 << 20

// few is how many types of an input are looked at, so that one does not take long.
const few = 64

// FuzzBTF reads raw BTF, and does with it all that is done with a kernel's.
// What is recorded of a type fits the same BTF.
func FuzzBTF(f *testing.F) {
	f.Add(rawBTF(f))
	wanted := readList(f, elevatorList)
	f.Fuzz(func(t *testing.T, raw []byte) {
		fuzzlimit.Run(t, 512*mib, func() {
			spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
			if err != nil {
				return
			}
			_ = WriteHeader(io.Discard, &Kernel{Spec: spec}, wanted)
			for _, name := range typeNames(spec) {
				checkRecords(t, spec, name)
				if _, err := findFunc(spec, name); err != nil && err.Error() == "" {
					t.Errorf("function %s: an error without a text", name)
				}
			}
		})
	})
}

// typeNames are the first few names of BTF.
func typeNames(spec *btf.Spec) []string {
	var names []string
	for typ, err := range spec.All() {
		if err != nil || len(names) == few {
			break
		}
		if name := typ.TypeName(); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func checkRecords(t *testing.T, spec *btf.Spec, name string) {
	typ, err := findComposite(spec, name)
	if err != nil {
		return
	}
	if text := definition(typ); !strings.Contains(text, "{") {
		t.Errorf("%s: %q is no definition", name, text)
	}
	records, err := compositeRecords(typ)
	if err != nil {
		return
	}
	seen := map[string]bool{}
	for _, r := range records {
		if seen[r.member] {
			return // two members of one name: C has no such type
		}
		seen[r.member] = true
	}
	for _, r := range records {
		if err := r.check(spec); err != nil && !strings.Contains(err.Error(), "two different types") {
			t.Errorf("what was recorded of %s does not fit: %v", name, err)
		}
	}
}

// FuzzReadBTF finds the BTF in a file of any kind: raw, ELF, or an image packed in
// one of three ways. An error names the file.
func FuzzReadBTF(f *testing.F) {
	raw := rawBTF(f)
	elf := vmlinux(f, ".BTF", raw)
	for _, seed := range [][]byte{raw, elf, image(gzipped(f, elf)), image(xzipped(f, elf)), image(lz4Literals(elf, 1000))} {
		f.Add(seed)
	}
	limitUnpacked(f)
	name := filepath.Join(f.TempDir(), "vmlinux")
	f.Fuzz(func(t *testing.T, data []byte) {
		must.OK(t, os.WriteFile(name, data, 0o644))
		fuzzlimit.Run(t, 256*mib, func() {
			found, err := ReadBTF(name)
			if err != nil && !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("an error that does not begin with the file: %v", err)
			}
			if len(found) > unpackedMax {
				t.Errorf("%d bytes of BTF", len(found))
			}
		})
	})
}

// limitUnpacked has files unpack to little, so that what does not is found soon.
func limitUnpacked(f *testing.F) {
	old := unpackedMax
	unpackedMax = 16 * mib
	f.Cleanup(func() { unpackedMax = old })
}

// FuzzLZ4 unpacks a legacy frame, and packs what comes out again.
func FuzzLZ4(f *testing.F) {
	f.Add(lz4Literals(bytes.Repeat([]byte("scheduler"), 500), 777))
	f.Add([]byte("\x02\x21\x4c\x18\x0a\x00\x00\x00\x1fa\x01\x00\xff\x00\x10b\x00\x00\x00\x13\x01\x00\x00"))
	limitUnpacked(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzlimit.Run(t, 256*mib, func() {
			out, err := unpackLZ4Legacy(data)
			if err != nil {
				return
			}
			if len(out) > unpackedMax {
				t.Fatalf("%d bytes came out of %d", len(out), len(data))
			}
			again, err := unpackLZ4Legacy(lz4Literals(out, 1<<16))
			if err != nil || !bytes.Equal(again, out) {
				t.Errorf("%d bytes became %d bytes, error %v", len(out), len(again), err)
			}
		})
	})
}

// FuzzRecord reads a layout record.
func FuzzRecord(f *testing.F) {
	record := make([]byte, 3*recordSize)
	copy(record, recordTitle)
	copy(record[recordName:], recordVersion)
	record[2*recordName], record[2*recordName+4] = 3, recordSize
	copy(record[recordSize:], "elevator_type")
	copy(record[recordSize+recordName:], "ops")
	copy(record[2*recordSize+recordName:], "elv_register()")
	f.Add(record)
	spec := build(f, elevators(false)...)
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzlimit.Run(t, uint64(64*mib+100*len(data)), func() {
			records, err := parseRecord(data)
			if err != nil {
				return
			}
			if len(records) != len(data)/recordSize-1 {
				t.Errorf("%d records in %d bytes", len(records), len(data))
			}
			for _, r := range records[:min(few, len(records))] {
				if err := r.fits(); err != nil {
					t.Error(err)
				}
				_ = r.check(spec)
			}
		})
	})
}

// FuzzModule reads a module file, packed or not, and its layout record.
func FuzzModule(f *testing.F) {
	ko, err := os.ReadFile(module(f))
	must.OK(f, err)
	pack, err := zstd.NewWriter(nil)
	must.OK(f, err)
	gz, xz := gzipped(f, ko), xzipped(f, ko)
	f.Add(uint8(0), ko)
	f.Add(uint8(1), gz[:len(gz)-imageSizeBytes])
	f.Add(uint8(2), xz[:len(xz)-imageSizeBytes])
	f.Add(uint8(3), pack.EncodeAll(ko, nil))
	limitUnpacked(f)
	dir := f.TempDir()
	spec := build(f, elevators(false)...)
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		name := filepath.Join(dir, "module.ko"+[]string{"", ".gz", ".xz", ".zst"}[kind%4])
		must.OK(t, os.WriteFile(name, data, 0o644))
		fuzzlimit.Run(t, 256*mib, func() {
			if err := CheckLayout(name, spec); err != nil && !strings.HasPrefix(err.Error(), name+": ") {
				t.Errorf("an error that does not begin with the file: %v", err)
			}
		})
	})
}

// FuzzWanted reads a list of declarations, and asks a kernel for them.
func FuzzWanted(f *testing.F) {
	f.Add(elevatorList)
	spec := build(f, elevators(false)...)
	f.Fuzz(func(t *testing.T, text string) {
		fuzzlimit.Run(t, uint64(64*mib+1000*len(text)), func() {
			wanted := &Wanted{}
			if err := wanted.read("list", strings.NewReader(text)); err != nil {
				if !strings.HasPrefix(err.Error(), "list") {
					t.Errorf("an error that does not begin with the file: %v", err)
				}
				return
			}
			_ = WriteHeader(io.Discard, &Kernel{Spec: spec}, wanted)
		})
	})
}
