// SPDX-License-Identifier: MIT

package kmod

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"isolio/internal/failure"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// module is a module file built for the small block layer.
func module(t testing.TB) string {
	t.Helper()
	object, complaints := compile(t, headerText(t, build(t, elevators(false)...)))
	if complaints != "" {
		t.Fatal(complaints)
	}
	return object
}

func TestCheckLayoutSameKernel(t *testing.T) {
	if err := CheckLayout(module(t), build(t, elevators(false)...)); err != nil {
		t.Error(err)
	}
}

func TestCheckLayoutOtherKernel(t *testing.T) {
	// change alters the kernel that the module is compared with.
	change := func(edit func(types []btf.Type)) *btf.Spec {
		types := elevators(false)
		edit(types)
		return build(t, types...)
	}
	elevator := func(types []btf.Type) *btf.Struct { return types[0].(*btf.Struct) }
	for _, test := range []struct {
		name string
		spec *btf.Spec
		want string
	}{
		{"members inserted in the middle of a table", build(t, elevators(true)...),
			"struct elevator_type: 40 bytes in the module, 48 in the kernel"},
		{"members swapped", change(func(types []btf.Type) {
			ops := elevator(types).Members[0].Type.(*btf.Struct)
			ops.Members[0].Name, ops.Members[1].Name = ops.Members[1].Name, ops.Members[0].Name
		}), "struct elevator_mq_ops: member init is at offset 0 in the module, at 8 in the kernel"},
		{"member gone", change(func(types []btf.Type) { elevator(types).Members[1].Name = "title" }),
			"struct elevator_type: the kernel's has no member name (offset 24 in the module)"},
		{"member larger", change(func(types []btf.Type) {
			elevator(types).Members[1].Type.(*btf.Array).Nelems = 8
		}), "struct elevator_type: member name has 6 bytes in the module, 8 in the kernel"},
		{"another prototype in a table", change(func(types []btf.Type) {
			ops := elevator(types).Members[0].Type.(*btf.Struct)
			proto := ops.Members[0].Type.(*btf.Pointer).Target.(*btf.FuncProto)
			proto.Params[1].Type = pointer(intType)
		}), "struct elevator_mq_ops: function pointer init: another prototype in the kernel, int (*)(struct request_queue *, int *)"},
		{"another prototype of a function", change(func(types []btf.Type) {
			types[3].(*btf.Func).Type.(*btf.FuncProto).Return = &btf.Void{}
		}), "function elv_register: another prototype in the kernel, void (*)(struct elevator_type *)"},
		{"function gone", change(func(types []btf.Type) { types[3].(*btf.Func).Name = "elv_enroll" }),
			"function elv_register: the kernel has none"},
		{"structure gone", change(func(types []btf.Type) { types[1].(*btf.Struct).Name = "blk_ctx" }),
			"struct blk_mq_ctx: the kernel has no such structure"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ko := module(t)
			err := CheckLayout(ko, test.spec)
			if err == nil {
				t.Fatal("the module was taken")
			}
			if !strings.HasPrefix(err.Error(), ko+": ") || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "make install") {
				t.Errorf("got %v, want %q and a remedy", err, test.want)
			}
			if failure.Code(err) != failure.Unsupported {
				t.Errorf("exit code %d, want %d", failure.Code(err), failure.Unsupported)
			}
		})
	}
}

// recordRange returns where the layout record lies in a module file.
func recordRange(t *testing.T, ko string) (start, end uint64) {
	t.Helper()
	file, err := elf.Open(ko)
	must.OK(t, err)
	defer file.Close()
	section := file.Section(recordSection)
	if section == nil {
		t.Fatal("no record in the module")
	}
	for _, other := range file.Sections {
		if other.Type == elf.SHT_RELA && other.Info < uint32(len(file.Sections)) && file.Sections[other.Info] == section {
			t.Error("the record has relocations")
		}
	}
	return section.Offset, section.Offset + section.Size
}

func TestCheckLayoutAlteredRecord(t *testing.T) {
	spec := build(t, elevators(false)...)
	for _, test := range []struct {
		name string
		edit func(record []byte)
		want string
	}{
		{"an offset", func(record []byte) {
			at := bytes.Index(record, append([]byte("attrs"), 0))
			binary.LittleEndian.PutUint32(record[at+recordName:], 40)
		}, "struct elevator_type: member attrs is at offset 40 in the module, at 32 in the kernel"},
		{"its length", func(record []byte) { binary.LittleEndian.PutUint32(record[2*recordName:], 3) }, "damaged layout record"},
		{"its version", func(record []byte) { record[recordName] = '9' }, "damaged layout record"},
		{"a name without end", func(record []byte) {
			for i := range recordName {
				record[recordSize+i] = 'x'
			}
		}, "damaged layout record"},
	} {
		ko := module(t)
		start, end := recordRange(t, ko)
		data, err := os.ReadFile(ko)
		must.OK(t, err)
		test.edit(data[start:end])
		must.OK(t, os.WriteFile(ko, data, 0o644))
		if err := CheckLayout(ko, spec); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q", test.name, err, test.want)
		}
	}
}

func TestCheckLayoutNoModule(t *testing.T) {
	spec := build(t, elevators(false)...)
	text := filepath.Join(t.TempDir(), "text.ko")
	testtree.File(t, text, "no module at all\n")
	plain, complaints := compile(t, "#define ISOLIO_LAYOUT_RECORD() extern int nothing\n")
	if complaints != "" {
		t.Fatal(complaints)
	}
	for name, want := range map[string]string{
		text:             "not a kernel module",
		plain:            "no layout record",
		text + ".absent": "no such file",
	} {
		err := CheckLayout(name, spec)
		if err == nil || !strings.Contains(err.Error(), want) || failure.Code(err) != failure.Usage {
			t.Errorf("%s: got error %v, code %d, want %q, code %d", name, err, failure.Code(err), want, failure.Usage)
		}
	}
}
