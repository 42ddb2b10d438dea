// SPDX-License-Identifier: MIT

package kmod

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// What a type of a kernel is made of, at most. Functions that lay out a type or
// write it as C call themselves for each of its parts; BTF from a file can hold a
// structure that contains itself.
const (
	shapeDepth = 48
	shapeParts = 1 << 17
	shapeBytes = 1 << 28
)

// checkShape returns an error for a type that no C compiler makes: one that is
// endless, or whose sizes contradict each other.
func checkShape(t btf.Type) error {
	s := shape{left: shapeParts}
	if err := s.layout(t, 0); err != nil {
		return fmt.Errorf("damaged BTF: type %q: %w", t.TypeName(), err)
	}
	if err := s.text(t, 0); err != nil {
		return fmt.Errorf("damaged BTF: type %q: %w", t.TypeName(), err)
	}
	return nil
}

// shape counts down the parts of a type.
type shape struct{ left int }

func (s *shape) enter(depth int) error {
	s.left--
	switch {
	case depth > shapeDepth:
		return fmt.Errorf("its parts are nested more than %d deep", shapeDepth)
	case s.left < 0:
		return fmt.Errorf("it has more than %d parts", shapeParts)
	}
	return nil
}

// layout follows what a type holds by value, in which alignOf goes.
func (s *shape) layout(t btf.Type, depth int) error {
	if err := s.enter(depth); err != nil {
		return err
	}
	switch t := t.(type) {
	case *btf.Int:
		return scalar(t.Size)
	case *btf.Float:
		return scalar(t.Size)
	case *btf.Enum:
		return scalar(t.Size)
	case *btf.Array:
		return s.layout(t.Type, depth+1)
	case *btf.Const:
		return s.layout(t.Type, depth+1)
	case *btf.Volatile:
		return s.layout(t.Type, depth+1)
	case *btf.Restrict:
		return s.layout(t.Type, depth+1)
	case *btf.TypeTag:
		return s.layout(t.Type, depth+1)
	case *btf.Typedef:
		return s.layout(t.Type, depth+1)
	case *btf.Struct, *btf.Union:
		return s.members(t, depth)
	}
	return nil
}

func (s *shape) members(t btf.Type, depth int) error {
	size := uint64(compositeSize(t))
	if size > shapeBytes {
		return fmt.Errorf("it has %d bytes, want %d at most", size, shapeBytes)
	}
	for _, m := range members(t) {
		if err := s.layout(m.Type, depth+1); err != nil {
			return err
		}
		end := uint64(m.Offset) + uint64(m.BitfieldSize)
		if m.BitfieldSize == 0 {
			bytes, err := btf.Sizeof(m.Type)
			if err != nil {
				return fmt.Errorf("member %q: %w", m.Name, err)
			}
			end += uint64(bytes) * 8
		}
		if end > size*8 {
			return fmt.Errorf("member %q ends at bit %d, the type at %d", m.Name, end, size*8)
		}
	}
	return nil
}

func scalar(bytes uint32) error {
	switch bytes {
	case 1, 2, 4, 8, 12, 16:
		return nil
	}
	return fmt.Errorf("a number of %d bytes", bytes)
}

// text follows what is written out where a type is named, in which cType goes:
// a structure with a name is just its name there.
func (s *shape) text(t btf.Type, depth int) error {
	if err := s.enter(depth); err != nil {
		return err
	}
	switch t := t.(type) {
	case *btf.Pointer:
		return s.text(t.Target, depth+1)
	case *btf.Const:
		return s.text(t.Type, depth+1)
	case *btf.Volatile:
		return s.text(t.Type, depth+1)
	case *btf.Restrict:
		return s.text(t.Type, depth+1)
	case *btf.TypeTag:
		return s.text(t.Type, depth+1)
	case *btf.Array:
		return s.text(t.Type, depth+1)
	case *btf.Func:
		return s.text(t.Type, depth+1)
	case *btf.Typedef:
		if depth == 0 {
			return s.text(t.Type, depth+1)
		}
	case *btf.FuncProto:
		for _, p := range t.Params {
			if err := s.text(p.Type, depth+1); err != nil {
				return err
			}
		}
		return s.text(t.Return, depth+1)
	case *btf.Struct, *btf.Union:
		if depth > 0 && t.TypeName() != "" {
			return nil
		}
		for _, m := range members(t) {
			if err := s.text(m.Type, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
