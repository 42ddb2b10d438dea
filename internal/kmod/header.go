// SPDX-License-Identifier: MIT

package kmod

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// header is a C header that is being put together.
type header struct {
	spec    *btf.Spec
	types   []btf.Type          // in the order in which C wants them
	placed  map[string]bool     // by kind and name
	decls   map[string]btf.Type // what the list asks for and headers lack
	forward map[string]bool     // "struct x" that are used through pointers
	funcs   []*btf.Func
	records []record
}

// WriteHeader writes the C header that wanted describes, for a kernel. The
// output depends on nothing but its input.
func WriteHeader(w io.Writer, kernel *Kernel, wanted *Wanted) error {
	h := &header{
		spec:    kernel.Spec.Copy(),
		placed:  map[string]bool{},
		decls:   map[string]btf.Type{},
		forward: map[string]bool{},
	}
	for _, tag := range wanted.Tags {
		if err := h.tag(tag); err != nil {
			return err
		}
	}
	if err := h.collect(wanted, kernel); err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	fmt.Fprint(out, headerIntro)
	fmt.Fprint(out, "#include <linux/build_bug.h>\n#include <linux/stddef.h>\n#include <linux/types.h>\n")
	for _, include := range wanted.Includes {
		fmt.Fprintf(out, "#include <%s>\n", include)
	}
	if err := writeFeatures(out, kernel, wanted.Features); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, name := range slices.Sorted(maps.Keys(h.forward)) {
		fmt.Fprintf(out, "%s;\n", name)
	}
	for _, typ := range h.types {
		fmt.Fprintf(out, "\n%s;\n", definition(typ))
	}
	if len(h.funcs) > 0 {
		fmt.Fprintln(out)
	}
	for _, f := range h.funcs {
		fmt.Fprintf(out, "%s;\n", definition(f))
	}
	writeAsserts(out, h.records)
	writeRecord(out, h.records, wanted.ModuleVersion)
	fmt.Fprint(out, "\n#endif\n")
	return out.Flush()
}

const headerIntro = `/* SPDX-License-Identifier: GPL-2.0-only */
/* Made from the kernel's BTF by "isolio kmod header": do not edit. */
#ifndef ISOLIO_PRIVATE_H
#define ISOLIO_PRIVATE_H

`

func writeFeatures(w io.Writer, kernel *Kernel, features []Feature) error {
	for _, f := range features {
		yes, err := f.ask(kernel)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Macro, err)
		}
		value := 0
		if yes {
			value = 1
		}
		fmt.Fprintf(w, "\n/* %s */\n#define %s %d\n", comment(f.Question), f.Macro, value)
	}
	return nil
}

// tag restores a pointer's address space.
func (h *header) tag(tag Tag) error {
	name, member, _ := strings.Cut(tag.Member, ".")
	typ, err := findComposite(h.spec, name)
	if err != nil {
		if tag.Optional && errors.Is(err, btf.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("tag: %w", err)
	}
	all := members(typ)
	i := slices.IndexFunc(all, func(m btf.Member) bool { return m.Name == member })
	if i < 0 {
		if tag.Optional {
			return nil
		}
		return fmt.Errorf("tag: this kernel's struct %s has no member %s; where a kernel may lack it the list says optional", name, member)
	}
	pointer, ok := all[i].Type.(*btf.Pointer)
	if !ok {
		return fmt.Errorf("tag: struct %s: member %s is not a pointer but %s", name, member, cType(all[i].Type, ""))
	}
	if _, tagged := pointer.Target.(*btf.TypeTag); !tagged {
		all[i].Type = &btf.Pointer{Target: &btf.TypeTag{Type: pointer.Target, Value: tag.Space}}
	}
	return nil
}

// collect finds everything wanted in the BTF and puts it in order.
func (h *header) collect(wanted *Wanted, kernel *Kernel) error {
	var recorded []btf.Type
	for _, d := range wanted.Decls {
		typ, err := findDecl(h.spec, d)
		if errors.Is(err, btf.ErrNotFound) {
			if d.Optional {
				continue
			}
			return fmt.Errorf("this kernel has no %s %s; where a kernel may lack it the list says optional", d.Kind, d.Name)
		}
		if err != nil {
			return err
		}
		if f, ok := typ.(*btf.Func); ok {
			h.funcs = append(h.funcs, f)
			continue
		}
		if isComposite(typ) {
			recorded = append(recorded, typ)
		}
		if !kernel.declares(d) {
			h.decls[key(typ)] = typ
		}
	}
	for _, d := range wanted.Decls {
		if typ, ok := h.decls[d.Kind+" "+d.Name]; ok {
			h.place(typ)
		}
	}
	for _, f := range h.funcs {
		h.mention(f.Type, false)
	}
	for _, name := range wanted.Recorded {
		typ, err := findComposite(h.spec, name)
		if err != nil {
			return err
		}
		recorded = append(recorded, typ)
	}
	for _, typ := range recorded {
		if kindOf(typ) != "struct" {
			continue // a union's members all start at 0
		}
		records, err := compositeRecords(typ)
		if err != nil {
			return err
		}
		h.records = append(h.records, records...)
	}
	for _, f := range h.funcs {
		h.records = append(h.records, functionRecord(f))
	}
	for _, r := range h.records {
		if err := r.fits(); err != nil {
			return err
		}
	}
	return nil
}

func key(t btf.Type) string { return kindOf(t) + " " + t.TypeName() }

// place puts a declaration behind all that it needs.
func (h *header) place(t btf.Type) {
	if h.placed[key(t)] {
		return
	}
	h.placed[key(t)] = true
	switch t := t.(type) {
	case *btf.Struct, *btf.Union:
		for _, m := range members(t) {
			h.mention(m.Type, false)
		}
	case *btf.Typedef:
		h.mention(t.Type, false)
	}
	h.types = append(h.types, t)
}

// mention notes that t is used in a declaration: wanted types are placed
// first, structures behind a pointer are declared forward.
func (h *header) mention(t btf.Type, pointed bool) {
	switch t := t.(type) {
	case *btf.Pointer:
		h.mention(t.Target, true)
	case *btf.Const:
		h.mention(t.Type, pointed)
	case *btf.Volatile:
		h.mention(t.Type, pointed)
	case *btf.Restrict:
		h.mention(t.Type, pointed)
	case *btf.TypeTag:
		h.mention(t.Type, pointed)
	case *btf.Array:
		h.mention(t.Type, pointed)
	case *btf.FuncProto:
		h.mention(t.Return, true)
		for _, p := range t.Params {
			h.mention(p.Type, true)
		}
	case *btf.Fwd:
		h.forward[specifier(t)] = true
	case *btf.Typedef, *btf.Enum:
		if _, ok := h.decls[key(t)]; ok {
			h.place(t)
		}
	case *btf.Struct, *btf.Union:
		h.mentionComposite(t, pointed)
	}
}

func (h *header) mentionComposite(t btf.Type, pointed bool) {
	if t.TypeName() == "" {
		for _, m := range members(t) {
			h.mention(m.Type, false)
		}
		return
	}
	if pointed {
		h.forward[specifier(t)] = true
	} else if _, ok := h.decls[key(t)]; ok {
		h.place(t)
	}
}

// comment makes s safe inside of a C comment.
func comment(s string) string {
	return strings.ReplaceAll(s, "*/", "* /")
}
