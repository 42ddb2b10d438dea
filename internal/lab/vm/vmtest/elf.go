// SPDX-License-Identifier: MIT

// Package vmtest has what tests of packages need that boot VMs: small ELF files, a kernel root,
// and a script in QEMU's place.
package vmtest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// ELF describes a small ELF file: enough for what the lab reads.
type ELF struct {
	Interp  string
	Needed  []string
	Runpath string
	Modinfo []string
}

// Write puts the file at path: header, contents, section table.
func (e ELF) Write(t *testing.T, path string) {
	t.Helper()
	var body bytes.Buffer
	const base = 64 + 56 // ELF header and one program header
	names := "\x00.shstrtab\x00.dynstr\x00.dynamic\x00.modinfo\x00"
	place := func(data []byte) (off, size uint64) {
		for body.Len()%8 != 0 {
			body.WriteByte(0)
		}
		off = uint64(base + body.Len())
		body.Write(data)
		return off, uint64(len(data))
	}
	sections := []elf.Section64{{}}
	section := func(name, kind, link uint32, data []byte) {
		s := elf.Section64{Name: name, Type: kind, Link: link, Addralign: 1}
		s.Off, s.Size = place(data)
		sections = append(sections, s)
	}
	section(1, uint32(elf.SHT_STRTAB), 0, []byte(names))
	if e.Needed != nil {
		strs, dyn := "\x00", []uint64{}
		put := func(tag elf.DynTag, s string) {
			dyn = append(dyn, uint64(tag), uint64(len(strs)))
			strs += s + "\x00"
		}
		for _, n := range e.Needed {
			put(elf.DT_NEEDED, n)
		}
		if e.Runpath != "" {
			put(elf.DT_RUNPATH, e.Runpath)
		}
		dyn = append(dyn, uint64(elf.DT_NULL), 0)
		var table bytes.Buffer
		must(t, binary.Write(&table, binary.LittleEndian, dyn))
		section(11, uint32(elf.SHT_STRTAB), 0, []byte(strs))
		section(19, uint32(elf.SHT_DYNAMIC), 2, table.Bytes())
	}
	if e.Modinfo != nil {
		var info bytes.Buffer
		for _, line := range e.Modinfo {
			info.WriteString(line + "\x00")
		}
		section(28, uint32(elf.SHT_PROGBITS), 0, info.Bytes())
	}
	prog := elf.Prog64{Type: uint32(elf.PT_NULL)}
	if e.Interp != "" {
		prog.Type = uint32(elf.PT_INTERP)
		prog.Off, prog.Filesz = place([]byte(e.Interp + "\x00"))
	}
	end, _ := place(nil)
	head := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Ehsize: 64,
		Phoff: 64, Phentsize: 56, Phnum: 1, Shoff: end, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: 1,
	}
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	var out bytes.Buffer
	must(t, binary.Write(&out, binary.LittleEndian, head))
	must(t, binary.Write(&out, binary.LittleEndian, prog))
	out.Write(body.Bytes())
	must(t, binary.Write(&out, binary.LittleEndian, sections))
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, out.Bytes(), 0o755))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
