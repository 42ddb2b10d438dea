// SPDX-License-Identifier: MIT

package kmod

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// findType returns the one type called name for which is answers yes. BTF may
// hold several types of one name, when source files disagree about it; a
// layout that is not the same for all of them cannot be relied on.
func findType(spec *btf.Spec, name string, is func(btf.Type) bool) (btf.Type, error) {
	types, err := spec.AnyTypesByName(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var first btf.Type
	for _, typ := range types {
		if !is(typ) {
			continue
		}
		if err := checkShape(typ); err != nil {
			return nil, err
		}
		if first == nil {
			first = typ
		} else if definition(first) != definition(typ) {
			return nil, fmt.Errorf("%s: the kernel's BTF has two different types of this name", name)
		}
	}
	if first == nil {
		return nil, fmt.Errorf("%s: %w", name, btf.ErrNotFound)
	}
	return first, nil
}

func findFunc(spec *btf.Spec, name string) (*btf.FuncProto, error) {
	typ, err := findType(spec, name, func(t btf.Type) bool { _, ok := t.(*btf.Func); return ok })
	if err != nil {
		return nil, err
	}
	return typ.(*btf.Func).Type.(*btf.FuncProto), nil
}

// findComposite finds a structure or a union.
func findComposite(spec *btf.Spec, name string) (btf.Type, error) {
	return findType(spec, name, func(t btf.Type) bool { return members(t) != nil || isComposite(t) })
}

// findDecl finds the type of a declaration of a list.
func findDecl(spec *btf.Spec, d Decl) (btf.Type, error) {
	return findType(spec, d.Name, func(t btf.Type) bool { return kindOf(t) == d.Kind })
}

// kindOf names the C keyword that declares t, or "".
func kindOf(t btf.Type) string {
	switch t.(type) {
	case *btf.Struct:
		return "struct"
	case *btf.Union:
		return "union"
	case *btf.Enum:
		return "enum"
	case *btf.Typedef:
		return "typedef"
	case *btf.Func:
		return "func"
	}
	return ""
}

func isComposite(t btf.Type) bool {
	kind := kindOf(t)
	return kind == "struct" || kind == "union"
}

func members(t btf.Type) []btf.Member {
	switch t := t.(type) {
	case *btf.Struct:
		return t.Members
	case *btf.Union:
		return t.Members
	}
	return nil
}

func sizeOf(t btf.Type) (uint32, error) {
	n, err := btf.Sizeof(t)
	return uint32(n), err
}

// field is a member as C code can name it: members of unnamed structures and
// unions inside a structure count as its own.
type field struct {
	name     string
	offset   btf.Bits // from the start of the structure
	bitfield btf.Bits // width, or 0
	typ      btf.Type
}

func flatten(t btf.Type) []field {
	var fields []field
	for _, m := range members(t) {
		if m.Name == "" {
			for _, inner := range flatten(btf.UnderlyingType(m.Type)) {
				inner.offset += m.Offset
				fields = append(fields, inner)
			}
			continue
		}
		fields = append(fields, field{m.Name, m.Offset, m.BitfieldSize, m.Type})
	}
	return fields
}
