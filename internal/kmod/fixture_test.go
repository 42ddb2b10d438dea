// SPDX-License-Identifier: MIT

package kmod

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/must"
	"isolio/internal/testtree"

	"github.com/cilium/ebpf/btf"
)

var (
	intType  = &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	uintType = &btf.Int{Name: "unsigned int", Size: 4}
	charType = &btf.Int{Name: "char", Size: 1, Encoding: btf.Signed}
	longType = &btf.Int{Name: "long unsigned int", Size: 8}
	boolType = &btf.Typedef{Name: "bool", Type: &btf.Int{Name: "_Bool", Size: 1, Encoding: btf.Bool}}
	u64Type  = &btf.Typedef{Name: "u64", Type: &btf.Int{Name: "long long unsigned int", Size: 8}}
)

// build puts types into BTF and reads it back, as a kernel's is read.
func build(t testing.TB, types ...btf.Type) *btf.Spec {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	must.OK(t, err)
	spec, err := b.Spec()
	must.OK(t, err)
	return spec
}

// member places a member at a byte offset.
func member(name string, offset uint32, typ btf.Type) btf.Member {
	return btf.Member{Name: name, Type: typ, Offset: btf.Bits(offset) * 8}
}

func pointer(t btf.Type) btf.Type { return &btf.Pointer{Target: t} }

func function(ret btf.Type, params ...btf.Type) *btf.FuncProto {
	proto := &btf.FuncProto{Return: ret}
	for i, p := range params {
		proto.Params = append(proto.Params, btf.FuncParam{Name: fmt.Sprintf("p%d", i), Type: p})
	}
	return proto
}

// elevators is a small block layer with all that makes C declarations hard.
// With moved, a function pointer was inserted in the middle of the table, as a
// stable kernel once did.
func elevators(moved bool) []btf.Type {
	queue := &btf.Struct{Name: "request_queue", Size: 16, Members: []btf.Member{
		member("nr", 0, uintType), member("data", 8, pointer(&btf.Void{})),
	}}
	merge := &btf.Enum{Name: "elv_merge", Size: 4, Values: []btf.EnumValue{
		{Name: "ELEVATOR_NO_MERGE", Value: 0}, {Name: "ELEVATOR_BACK_MERGE", Value: 2},
	}}
	free := &btf.Typedef{Name: "blkcg_free_fn", Type: function(&btf.Void{}, pointer(queue))}
	ops := &btf.Struct{Name: "elevator_mq_ops", Size: 24}
	names := []string{"init", "merged", "exit"}
	protos := map[string]btf.Type{
		"init":   pointer(function(intType, pointer(queue), pointer(&btf.Const{Type: charType}))),
		"merged": pointer(function(&btf.Void{}, pointer(queue), merge)),
		"exit":   pointer(free),
		"alloc":  pointer(function(pointer(&btf.Void{}), pointer(queue))),
	}
	if moved {
		names = []string{"init", "alloc", "merged", "exit"}
		ops.Size = 32
	}
	for i, name := range names {
		ops.Members = append(ops.Members, member(name, uint32(i)*8, protos[name]))
	}
	// ____cacheline_aligned on the unnamed structure and so on the whole.
	ctx := &btf.Struct{Name: "blk_mq_ctx", Size: 192, Members: []btf.Member{
		member("", 0, &btf.Struct{Size: 64, Members: []btf.Member{
			member("lock", 0, intType), member("lists", 8, &btf.Array{Type: longType, Nelems: 5, Index: intType}),
		}}),
		member("cpu", 64, uintType),
		member("late", 128, boolType),
	}}
	flags := &btf.Struct{Name: "blkg_flags", Size: 24, Members: []btf.Member{
		{Name: "a", Type: uintType, Offset: 0, BitfieldSize: 3},
		{Name: "b", Type: uintType, Offset: 3, BitfieldSize: 7},
		{Name: "c", Type: uintType, Offset: 32, BitfieldSize: 30},
		member("", 8, &btf.Union{Size: 8, Members: []btf.Member{member("word", 0, u64Type), member("byte", 0, charType)}}),
		member("tail", 16, &btf.Array{Type: pointer(ops), Nelems: 1, Index: intType}),
	}}
	packed := &btf.Struct{Name: "elv_packed", Size: 11, Members: []btf.Member{
		member("first", 0, charType), member("second", 1, u64Type), member("third", 10, charType),
	}}
	elevator := &btf.Struct{Name: "elevator_type", Size: ops.Size + 16, Members: []btf.Member{
		member("ops", 0, ops),
		member("name", ops.Size, &btf.Array{Type: charType, Nelems: 6, Index: intType}),
		member("attrs", ops.Size+8, pointer(&btf.Const{Type: flags})),
	}}
	register := &btf.Func{Name: "elv_register", Type: function(intType, pointer(elevator)), Linkage: btf.GlobalFunc}
	return []btf.Type{elevator, ctx, packed, register, free}
}

// elevatorList asks for everything in elevators, the dependent first.
const elevatorList = `
include linux/blkdev.h
struct elevator_type   # uses the next
struct elevator_mq_ops
struct blk_mq_ctx
struct blkg_flags
struct elv_packed
enum elv_merge
typedef blkcg_free_fn
func elv_register
optional struct elevator_tags
optional func elevator_alloc
record request_queue
tag elevator_type.attrs rcu
optional tag elevator_type.gone percpu
feature ISOLIO_HAVE_ALLOC member elevator_mq_ops.alloc
feature ISOLIO_HAVE_INIT_QUEUE param elevator_mq_ops.init 1 "struct request_queue *"
`

func readList(t testing.TB, text string) *Wanted {
	t.Helper()
	name := filepath.Join(t.TempDir(), "list.txt")
	testtree.File(t, name, text)
	wanted, err := ReadWanted(name)
	must.OK(t, err)
	return wanted
}

func headerText(t testing.TB, spec *btf.Spec) string {
	t.Helper()
	var b strings.Builder
	must.OK(t, WriteHeader(&b, &Kernel{Spec: spec}, readList(t, elevatorList)))
	return b.String()
}

// prelude has what the kernel's own headers would.
const prelude = `
typedef unsigned int u32;
typedef unsigned long long u64;
typedef _Bool bool;
#define __packed __attribute__((packed))
#define __aligned(n) __attribute__((aligned(n)))
#define __used __attribute__((used))
#define __section(s) __attribute__((section(s)))
#define __rcu
#define __percpu
`

// compile compiles a header into an object with a layout record, which is to
// CheckLayout what a module is. It returns the object and what gcc said.
func compile(t testing.TB, header string) (object, complaints string) {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"linux/types.h":     prelude,
		"linux/blkdev.h":    "struct request_queue { unsigned int nr; void *data; };\n",
		"linux/stddef.h":    "#define offsetof(t, m) __builtin_offsetof(t, m)\n",
		"linux/build_bug.h": "#define static_assert(e) _Static_assert(e, #e)\n",
		"private.h":         header,
		"module.c":          "#include \"private.h\"\nISOLIO_LAYOUT_RECORD();\n",
	}
	testtree.Write(t, dir, files)
	object = filepath.Join(dir, "module.ko")
	out, err := exec.Command("gcc", "-std=gnu11", "-nostdinc", "-Wall", "-Wextra", "-Werror", "-c",
		"-I", dir, "-o", object, filepath.Join(dir, "module.c")).CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatalf("this test takes gcc, which `make setup` installs: %v", err)
	}
	return object, string(out)
}
