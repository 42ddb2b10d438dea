// SPDX-License-Identifier: MIT

package kmod

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/btf"

	"isolio/internal/failure"
)

const remedy = "the module was built for another kernel: build it for this one with `make install`, or `make build KERNEL=LINE` for the lab"

// CheckLayout compares the layout record in the module file ko with a kernel's
// BTF. The error for a difference names the structure and the member, what the
// module was built with and what the kernel has.
func CheckLayout(ko string, spec *btf.Spec) error {
	records, err := readRecord(ko)
	if err != nil {
		return err
	}
	for _, r := range records {
		if err := r.check(spec); err != nil {
			return failure.Unsupportedf("%s: %w; %s", ko, err, remedy)
		}
	}
	return nil
}

func readRecord(ko string) ([]record, error) {
	text, err := ReadModule(ko)
	if err != nil {
		return nil, failure.Usagef("%w", err)
	}
	file, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return nil, failure.Usagef("%s: not a kernel module: it is no ELF file, or a damaged one; allowed: a file .ko, also packed", ko)
	}
	section := file.Section(recordSection)
	if section == nil {
		return nil, failure.Usagef("%s: no layout record (section %s): not a module of isolio, or built without ISOLIO_LAYOUT_RECORD()", ko, recordSection)
	}
	data, err := sectionData(section, len(text))
	if err != nil {
		return nil, failure.Usagef("%s: %w", ko, err)
	}
	records, err := parseRecord(data)
	if err != nil {
		return nil, failure.Usagef("%s: %w", ko, err)
	}
	return records, nil
}

// check compares one recorded fact with a kernel.
func (r record) check(spec *btf.Spec) error {
	if r.isProto() {
		return r.checkProto(spec)
	}
	typ, err := findComposite(spec, r.typ)
	if errors.Is(err, btf.ErrNotFound) {
		return fmt.Errorf("struct %s: the kernel has no such structure", r.typ)
	}
	if err != nil {
		return err
	}
	if r.member == "" {
		if size := compositeSize(typ); size != r.size {
			return fmt.Errorf("struct %s: %d bytes in the module, %d in the kernel", r.typ, r.size, size)
		}
		return nil
	}
	for _, f := range flatten(typ) {
		if f.name != r.member {
			continue
		}
		if f.offset.Bytes() != r.offset {
			return fmt.Errorf("struct %s: member %s is at offset %d in the module, at %d in the kernel", r.typ, r.member, r.offset, f.offset.Bytes())
		}
		size, err := sizeOf(f.typ)
		if err != nil {
			return fmt.Errorf("struct %s: member %s: %w", r.typ, r.member, err)
		}
		if size != r.size {
			return fmt.Errorf("struct %s: member %s has %d bytes in the module, %d in the kernel", r.typ, r.member, r.size, size)
		}
		return nil
	}
	return fmt.Errorf("struct %s: the kernel's has no member %s (offset %d in the module)", r.typ, r.member, r.offset)
}

func (r record) checkProto(spec *btf.Spec) error {
	name := r.member[:len(r.member)-2]
	subject := "function " + name
	function := name
	if r.typ != "" {
		subject = fmt.Sprintf("struct %s: function pointer %s", r.typ, name)
		function = r.typ + "." + name
	}
	proto, err := findProto(spec, function)
	if errors.Is(err, btf.ErrNotFound) {
		return fmt.Errorf("%s: the kernel has none", subject)
	}
	if err != nil {
		return err
	}
	if now := protoRecord(r.typ, name, proto); now != r {
		return fmt.Errorf("%s: another prototype in the kernel, %s", subject, cType(proto, "(*)"))
	}
	return nil
}
