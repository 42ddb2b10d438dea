// SPDX-License-Identifier: MIT

package kmod

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// cType writes the C declaration of name with type t, from the inside out as
// C wants it; with no name it is the type's name alone.
func cType(t btf.Type, name string) string {
	switch t := t.(type) {
	case *btf.Pointer:
		return cType(t.Target, pointerTo(t.Target, name))
	case *btf.Const:
		return qualified("const", t.Type, name)
	case *btf.Volatile:
		return qualified("volatile", t.Type, name)
	case *btf.Restrict:
		return qualified("restrict", t.Type, name)
	case *btf.TypeTag:
		return cType(t.Type, addressSpace[t.Value]+name)
	case *btf.Array:
		return cType(t.Type, fmt.Sprintf("%s[%d]", name, t.Nelems))
	case *btf.FuncProto:
		return cType(t.Return, name+"("+cParams(t)+")")
	}
	return join(specifier(t), name)
}

// addressSpace has the kernel's words for the type tags that only sparse
// minds; other tags mean nothing in C.
var addressSpace = map[string]string{"rcu": "__rcu ", "percpu": "__percpu "}

// pointerTo puts a star before name, in brackets where what follows the name
// would bind more tightly than the star.
func pointerTo(target btf.Type, name string) string {
	name = "*" + name
	if tag, ok := target.(*btf.TypeTag); ok {
		target = tag.Type
	}
	switch target.(type) {
	case *btf.Array, *btf.FuncProto:
		return "(" + name + ")"
	}
	return name
}

// qualified writes a qualifier before a named type and behind the star of a
// pointer.
func qualified(word string, t btf.Type, name string) string {
	if pointer, ok := t.(*btf.Pointer); ok {
		return cType(pointer.Target, pointerTo(pointer.Target, " "+word+" "+name))
	}
	return word + " " + cType(t, name)
}

func join(typ, name string) string {
	if name == "" {
		return typ
	}
	return typ + " " + name
}

func cParams(proto *btf.FuncProto) string {
	if len(proto.Params) == 0 {
		return "void"
	}
	params := make([]string, len(proto.Params))
	for i, p := range proto.Params {
		if _, ok := p.Type.(*btf.Void); ok {
			params[i] = "..."
			continue
		}
		params[i] = cType(p.Type, "")
	}
	return strings.Join(params, ", ")
}

// specifier is the part of a declaration before the declarator. An unnamed
// structure, union or enumeration is written out.
func specifier(t btf.Type) string {
	switch t := t.(type) {
	case *btf.Void:
		return "void"
	case *btf.Int:
		return t.Name
	case *btf.Float:
		return t.Name
	case *btf.Typedef:
		return t.Name
	case *btf.Fwd:
		return t.Kind.String() + " " + t.Name
	case *btf.Struct, *btf.Union, *btf.Enum:
		if t.TypeName() != "" {
			return kindOf(t) + " " + t.TypeName()
		}
		return definition(t)
	}
	return fmt.Sprintf("%s /* no such type in C */", t.TypeName())
}

// definition writes what t is: the body of a structure, union or enumeration,
// what a typedef or a function stands for.
func definition(t btf.Type) string {
	switch t := t.(type) {
	case *btf.Struct, *btf.Union:
		return composite(t)
	case *btf.Enum:
		return enumeration(t)
	case *btf.Typedef:
		if proto, ok := t.Type.(*btf.FuncProto); ok {
			return "typedef " + cType(proto, "("+t.Name+")")
		}
		return "typedef " + cType(t.Type, t.Name)
	case *btf.Func:
		return cType(t.Type, t.Name)
	}
	return specifier(t)
}

func enumeration(t *btf.Enum) string {
	var b strings.Builder
	b.WriteString(join("enum", t.Name) + " {\n")
	for _, v := range t.Values {
		if t.Signed {
			fmt.Fprintf(&b, "\t%s = %d,\n", v.Name, int64(v.Value))
		} else {
			fmt.Fprintf(&b, "\t%s = %d,\n", v.Name, v.Value)
		}
	}
	b.WriteString("}")
	return b.String()
}
