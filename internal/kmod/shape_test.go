// SPDX-License-Identifier: MIT

package kmod

import (
	"io"
	"strings"
	"testing"

	"isolio/internal/must"

	"github.com/cilium/ebpf/btf"
)

// Types that no compiler makes are refused, and take no stack or memory.
func TestDamagedTypes(t *testing.T) {
	self := &btf.Struct{Name: "broken", Size: 8}
	self.Members = []btf.Member{member("self", 0, self)}
	array := &btf.Array{Index: intType, Nelems: 1}
	array.Type = array
	unnamed := &btf.Struct{Size: 8}
	unnamed.Members = []btf.Member{member("self", 0, pointer(unnamed))}
	loop := &btf.Pointer{}
	loop.Target = loop
	var doubled btf.Type = &btf.Struct{Size: 1, Members: []btf.Member{member("a", 0, charType)}}
	for size := uint32(2); size <= 1<<20; size *= 2 {
		doubled = &btf.Struct{Size: size, Members: []btf.Member{member("a", 0, doubled), member("b", size/2, doubled)}}
	}
	holding := func(t btf.Type) btf.Type {
		return &btf.Struct{Name: "broken", Size: 1 << 21, Members: []btf.Member{member("m", 0, t)}}
	}
	for _, test := range []struct {
		name string
		typ  btf.Type
		want string
	}{
		{"it holds itself", self, "nested more than"},
		{"an array of itself", holding(array), "nested more than"},
		{"an unnamed one that points to itself", holding(pointer(unnamed)), "nested more than"},
		{"a pointer to itself", holding(loop), "nested more than"},
		{"each part twice, 20 times", holding(doubled), "parts"},
		{"a number of 512 MiB", holding(&btf.Int{Name: "int", Size: 1 << 29}), "a number of 536870912 bytes"},
		{"a member behind the end", &btf.Struct{Name: "broken", Size: 4, Members: []btf.Member{member("m", 4, intType)}}, "ends at bit 64"},
		{"a whole that is too large", &btf.Struct{Name: "broken", Size: 1 << 30}, "bytes, want"},
	} {
		err := checkShape(test.typ)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "damaged BTF") {
			t.Errorf("%s: got error %v, want %q", test.name, err, test.want)
		}
	}
	for _, typ := range elevators(true) {
		if err := checkShape(typ); err != nil {
			t.Error(err)
		}
	}
}

// The same from BTF that was read, all the way to the header.
func TestDamagedBTF(t *testing.T) {
	queue := &btf.Struct{Name: "request_queue", Size: 8}
	queue.Members = []btf.Member{member("self", 0, queue)}
	raw, err := btf.NewBuilder([]btf.Type{queue}, nil)
	must.OK(t, err)
	spec, err := raw.Spec()
	must.OK(t, err)
	err = WriteHeader(io.Discard, &Kernel{Spec: spec}, readList(t, "record request_queue\n"))
	if err == nil || !strings.Contains(err.Error(), "damaged BTF") {
		t.Errorf("got error %v, want one of damaged BTF", err)
	}
}

// What unpacks to too much is refused before it takes the memory.
func TestUnpackedSize(t *testing.T) {
	old := unpackedMax
	unpackedMax = 1 << 20
	defer func() { unpackedMax = old }()
	large := make([]byte, unpackedMax+1)
	for name, unpack := range map[string]func() ([]byte, error){
		"gzip": func() ([]byte, error) { return unpackGzip(gzipped(t, large)) },
		"xz":   func() ([]byte, error) { return unpackXZ(xzipped(t, large)) },
		"lz4":  func() ([]byte, error) { return unpackLZ4Legacy(lz4Literals(large, 1<<16)) },
	} {
		if out, err := unpack(); err == nil || !strings.Contains(err.Error(), "unpacks to more than 1 MiB") {
			t.Errorf("%s: got %d bytes, error %v", name, len(out), err)
		}
	}
}
