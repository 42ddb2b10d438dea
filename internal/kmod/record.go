// SPDX-License-Identifier: MIT

package kmod

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

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
	recordVersion = "1"
)

// record is one fact that a module was built with. There are four kinds:
//
//	{struct, "",         0,            size in bytes}
//	{struct, member,     offset,       size in bytes}
//	{struct, "member()", checksum,     number of parameters}   a function pointer
//	{"",     "name()",   checksum,     number of parameters}   a function
//
// A checksum is the CRC-32 of the prototype as cType writes it.
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
	sum := crc32.ChecksumIEEE([]byte(cType(proto, "")))
	return record{typ, name + "()", sum, uint32(len(proto.Params))}
}

// writeAsserts makes sure that what the compiler sees is what BTF says.
func writeAsserts(w io.Writer, records []record) {
	fmt.Fprintln(w)
	for _, r := range records {
		switch {
		case r.isProto():
		case r.member == "":
			fmt.Fprintf(w, "static_assert(sizeof(struct %s) == %d);\n", r.typ, r.size)
		default:
			fmt.Fprintf(w, "static_assert(offsetof(struct %s, %s) == %d);\n", r.typ, r.member, r.offset)
		}
	}
}

// writeRecord writes the macro that puts the record into a module. Places are
// what the compiler finds, prototypes what BTF says.
func writeRecord(w io.Writer, records []record) {
	fmt.Fprintf(w, `
struct isolio_layout {
	char type[%d];
	char member[%d];
	u32 offset;
	u32 size;
};

/* Once in every module, beside MODULE_LICENSE(). */
#define ISOLIO_LAYOUT_RECORD() \
static const struct isolio_layout isolio_layout[] __used __aligned(4) \
	__section("%s") = { \
	{ "%s", "%s", %d, %d }, \
`, recordName, recordName, recordSection, recordTitle, recordVersion, len(records)+1, recordSize)
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

var errRecord = errors.New("damaged layout record: build the module again with `make modules`")

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
