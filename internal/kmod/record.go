// SPDX-License-Identifier: MIT

package kmod

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// recordSection holds a module's layout record: an array of fixed-size
// entries without relocations. The kernel frees .init sections once the module
// is loaded, so the record costs no memory.
const recordSection = ".init.isolio_layout"

// Sizes of a record's entry; every number is a little-endian u32.
const (
	recordName = 48                 // bytes of a name, ended by 0
	recordSize = 2*recordName + 2*4 // type, member, offset, size
)

// The first entry tells that this is a record, its version and its length.
const (
	recordTitle   = "isolio layout"
	recordVersion = "2"
)

// record is one fact that a module was built with. There are four kinds:
//
//	{struct, "",         0,            size in bytes}
//	{struct, member,     offset,       size in bytes}
//	{struct, "member()", checksum,     number of parameters}   a function pointer
//	{"",     "name()",   checksum,     number of parameters}   a function
//
// A checksum is that of protoSum. kernel/compat/layout.h reads the record as
// well: both have to agree.
type record struct {
	typ, member  string
	offset, size uint32
}

func (r record) fits() error {
	if len(r.typ) >= recordName || len(r.member) >= recordName {
		return fmt.Errorf("%s.%s: a name is too long for the layout record (%d bytes)", r.typ, r.member, recordName-1)
	}
	return nil
}

// isProto reports whether r is about a prototype, not about a place.
func (r record) isProto() bool {
	return len(r.member) > 2 && r.member[len(r.member)-2:] == "()"
}

// compositeRecords returns the records of a structure or a union. Bit-fields
// have no address and so no record; their neighbours have.
func compositeRecords(t btf.Type) ([]record, error) {
	name := t.TypeName()
	records := []record{{name, "", 0, compositeSize(t)}}
	for _, f := range flatten(t) {
		if f.bitfield > 0 {
			continue
		}
		size, err := sizeOf(f.typ)
		if err != nil {
			return nil, fmt.Errorf("struct %s: %s: %w", name, f.name, err)
		}
		records = append(records, record{name, f.name, f.offset.Bytes(), size})
		if proto := asProto(f.typ); proto != nil {
			records = append(records, protoRecord(name, f.name, proto))
		}
	}
	return records, nil
}

func functionRecord(f *btf.Func) record {
	return protoRecord("", f.Name, f.Type.(*btf.FuncProto))
}

func protoRecord(typ, name string, proto *btf.FuncProto) record {
	return record{typ, name + "()", protoSum(proto), uint32(len(proto.Params))}
}

// protoSum is the 32-bit FNV-1a of a prototype, written from the outside in.
func protoSum(proto *btf.FuncProto) uint32 {
	sum := fnv.New32a()
	_, _ = io.WriteString(sum, protoText(proto)) // never fails
	return sum.Sum32()
}

// protoText writes a type as layout_hash_type() in kernel/compat/layout.h does:
// '*' for a pointer, 'c', 'v' and 'r' for qualifiers, "[N]" for an array,
// "(result,parameter,...)" for a prototype, a letter and a name for the others,
// '.' for void. Tags do not count.
func protoText(t btf.Type) string {
	switch t := t.(type) {
	case *btf.Pointer:
		return "*" + protoText(t.Target)
	case *btf.Const:
		return "c" + protoText(t.Type)
	case *btf.Volatile:
		return "v" + protoText(t.Type)
	case *btf.Restrict:
		return "r" + protoText(t.Type)
	case *btf.TypeTag:
		return protoText(t.Type)
	case *btf.Array:
		return fmt.Sprintf("[%d]", t.Nelems) + protoText(t.Type)
	case *btf.FuncProto:
		var text strings.Builder
		text.WriteString("(" + protoText(t.Return))
		for _, p := range t.Params {
			text.WriteString("," + protoText(p.Type))
		}
		return text.String() + ")"
	case *btf.Void:
		return "."
	}
	return protoKind(t) + ":" + t.TypeName() + ";"
}

// protoKind is the letter for a type with a name. A structure that is only
// declared is the structure.
func protoKind(t btf.Type) string {
	switch t := t.(type) {
	case *btf.Struct:
		return "s"
	case *btf.Union:
		return "u"
	case *btf.Fwd:
		if t.Kind == btf.FwdUnion {
			return "u"
		}
		return "s"
	case *btf.Enum:
		return "e"
	case *btf.Typedef:
		return "t"
	}
	return "i" // an integer, or a floating-point number
}

// writeAsserts makes sure that what the compiler sees is what BTF says. sparse sees another
// struct device, which some of the structures have in them.
func writeAsserts(w io.Writer, records []record) {
	fmt.Fprint(w, "\n#ifndef __CHECKER__\n")
	for _, r := range records {
		switch {
		case r.isProto():
		case r.member == "":
			fmt.Fprintf(w, "static_assert(sizeof(struct %s) == %d);\n", r.typ, r.size)
		default:
			fmt.Fprintf(w, "static_assert(offsetof(struct %s, %s) == %d);\n", r.typ, r.member, r.offset)
		}
	}
	fmt.Fprint(w, "#endif\n")
}

// writeRecord writes the macro that puts the record into a module. Places are
// what the compiler finds, prototypes what BTF says. As it is in each module once, the
// modules' version goes with it.
func writeRecord(w io.Writer, records []record, moduleVersion string) {
	var version string
	if moduleVersion != "" {
		version = fmt.Sprintf("MODULE_VERSION(\"%s\"); \\\n", moduleVersion)
	}
	fmt.Fprintf(w, `
struct isolio_layout {
	char type[%d];
	char member[%d];
	u32 offset;
	u32 size;
};

/* Once in every module, beside MODULE_LICENSE(). */
#define ISOLIO_LAYOUT_RECORD() \
%sstatic const struct isolio_layout isolio_layout[] __used __aligned(4) \
	__section("%s") = { \
	{ "%s", "%s", %d, %d }, \
`, recordName, recordName, version, recordSection, recordTitle, recordVersion, len(records)+1, recordSize)
	for _, r := range records {
		switch {
		case r.isProto():
			fmt.Fprintf(w, "\t{ \"%s\", \"%s\", 0x%08xU, %d }, \\\n", r.typ, r.member, r.offset, r.size)
		case r.member == "":
			fmt.Fprintf(w, "\t{ \"%s\", \"\", 0, sizeof(struct %s) }, \\\n", r.typ, r.typ)
		default:
			fmt.Fprintf(w, "\t{ \"%s\", \"%s\", offsetof(struct %s, %s), %d }, \\\n", r.typ, r.member, r.typ, r.member, r.size)
		}
	}
	fmt.Fprint(w, "}\n")
}

var errRecord = errors.New("damaged layout record: build the module again")

// parseRecord reads a record's section.
func parseRecord(data []byte) ([]record, error) {
	if len(data) < recordSize || len(data)%recordSize != 0 {
		return nil, errRecord
	}
	var records []record
	for ; len(data) > 0; data = data[recordSize:] {
		typ, _, ok1 := bytes.Cut(data[:recordName], []byte{0})
		member, _, ok2 := bytes.Cut(data[recordName:2*recordName], []byte{0})
		if !ok1 || !ok2 {
			return nil, errRecord
		}
		records = append(records, record{
			string(typ), string(member),
			binary.LittleEndian.Uint32(data[2*recordName:]),
			binary.LittleEndian.Uint32(data[2*recordName+4:]),
		})
	}
	title := records[0]
	if title != (record{recordTitle, recordVersion, uint32(len(records)), recordSize}) {
		return nil, errRecord
	}
	return records[1:], nil
}
