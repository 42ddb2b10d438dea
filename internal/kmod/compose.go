// SPDX-License-Identifier: MIT

package kmod

import (
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Alignment attributes are not in BTF; their effect on offsets and sizes is.
// composition finds where a compiler would put each member and restores what
// is missing: __aligned on a member or on the whole, __packed, or padding.
// The asserts in the header prove the outcome.
type composition struct {
	packed bool
	align  uint32 // bytes: what the compiler will use for the whole
	end    btf.Bits
	lines  []string
	pads   int
}

// composite writes a structure's or a union's definition, without semicolon.
func composite(t btf.Type) string {
	c := compose(t)
	var b strings.Builder
	b.WriteString(join(kindOf(t), t.TypeName()) + " {\n")
	for _, line := range c.lines {
		b.WriteString("\t" + strings.ReplaceAll(line, "\n", "\n\t") + ";\n")
	}
	b.WriteString("}")
	size, natural := compositeSize(t), naturalAlign(t)
	if c.packed {
		b.WriteString(" __packed")
	}
	if c.align > natural || (c.packed && c.align > 1) {
		fmt.Fprintf(&b, " __aligned(%d)", c.align)
	}
	if size == 0 {
		b.WriteString(" /* empty */")
	}
	return b.String()
}

func compose(t btf.Type) *composition {
	c := &composition{align: 1}
	aligns := make([]uint32, len(members(t))) // found once: it goes through all that a member holds
	for i, m := range members(t) {
		aligns[i] = alignOf(m.Type)
		if m.BitfieldSize == 0 && m.Offset.Bytes()%aligns[i] != 0 {
			c.packed = true
		}
	}
	_, union := t.(*btf.Union)
	for i, m := range members(t) {
		if union {
			c.end = 0
		}
		c.place(m, aligns[i], compositeSize(t))
	}
	c.finish(t)
	return c
}

// place writes one member, with what it takes to get it where BTF says.
func (c *composition) place(m btf.Member, align, size uint32) {
	if m.BitfieldSize > 0 {
		c.placeBitfield(m)
		return
	}
	if c.packed {
		align = 1
	}
	attribute := ""
	start := roundUp(c.end, btf.Bits(align)*8)
	if gap := m.Offset - start; gap > 0 && m.Offset > start {
		if n := alignFor(c.end, m.Offset); n > align && size%n == 0 && !c.packed {
			align, attribute = n, fmt.Sprintf(" __aligned(%d)", n)
		} else {
			from := roundUp(c.end, 8)
			c.pad(uint32(m.Offset-from) / 8)
		}
	}
	c.align = max(c.align, align)
	c.lines = append(c.lines, cType(m.Type, m.Name)+attribute)
	bytes, err := sizeOf(m.Type)
	if err == nil {
		c.end = max(c.end, m.Offset+btf.Bits(bytes)*8)
	}
}

func (c *composition) placeBitfield(m btf.Member) {
	bytes, err := sizeOf(m.Type)
	if err != nil || bytes == 0 {
		bytes = 4
	}
	unit := btf.Bits(bytes) * 8
	start := c.end
	if start/unit != (start+m.BitfieldSize-1)/unit && !c.packed {
		start = roundUp(start, unit)
	}
	if m.Offset > start {
		if m.Offset == roundUp(start, unit) {
			c.lines = append(c.lines, cType(m.Type, "")+" : 0")
		} else {
			c.lines = append(c.lines, fmt.Sprintf("%s : %d", cType(m.Type, ""), m.Offset-start))
		}
	}
	if !c.packed {
		c.align = max(c.align, bytes)
	}
	c.lines = append(c.lines, fmt.Sprintf("%s : %d", cType(m.Type, m.Name), m.BitfieldSize))
	c.end = max(c.end, m.Offset+m.BitfieldSize)
}

// finish makes the whole as large as BTF says.
func (c *composition) finish(t btf.Type) {
	size := compositeSize(t)
	end := roundUp(c.end, 8)
	if roundUp(end, btf.Bits(c.align)*8) == btf.Bits(size)*8 {
		return
	}
	if n := alignFor(end, btf.Bits(size)*8); n > c.align {
		c.align = n
		return
	}
	if _, union := t.(*btf.Union); union {
		c.pad(size)
		return
	}
	c.pad(size - end.Bytes())
}

func (c *composition) pad(bytes uint32) {
	if bytes == 0 {
		return
	}
	c.lines = append(c.lines, fmt.Sprintf("unsigned char __pad%d[%d]", c.pads, bytes))
	c.pads++
}

// alignFor returns the smallest alignment, in bytes, that takes a member from
// one offset to another, or 0.
func alignFor(from, to btf.Bits) uint32 {
	for n := uint32(2); n <= 4096; n *= 2 {
		if roundUp(from, btf.Bits(n)*8) == to {
			return n
		}
	}
	return 0
}

func roundUp(n, to btf.Bits) btf.Bits {
	return (n + to - 1) / to * to
}

func compositeSize(t btf.Type) uint32 {
	switch t := t.(type) {
	case *btf.Struct:
		return t.Size
	case *btf.Union:
		return t.Size
	}
	return 0
}

// alignOf is the alignment that the compiler will use for t as written here.
func alignOf(t btf.Type) uint32 {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Array:
		return alignOf(t.Type)
	case *btf.Struct, *btf.Union:
		return compose(t).align
	default:
		size, err := sizeOf(t)
		if err != nil || size == 0 {
			return 1
		}
		return size
	}
}

// naturalAlign is the alignment of a structure or union by its members alone.
func naturalAlign(t btf.Type) uint32 {
	align := uint32(1)
	for _, m := range members(t) {
		align = max(align, alignOf(m.Type))
	}
	return align
}
