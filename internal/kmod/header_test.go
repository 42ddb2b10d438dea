// SPDX-License-Identifier: MIT

package kmod

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/must"
	"isolio/internal/testtree"

	"github.com/cilium/ebpf/btf"
)

func TestHeaderDeclarations(t *testing.T) {
	text := headerText(t, build(t, elevators(false)...))
	for _, want := range []string{
		"#include <linux/blkdev.h>\n",
		"#define ISOLIO_HAVE_ALLOC 0\n",
		"#define ISOLIO_HAVE_INIT_QUEUE 1\n",
		"struct request_queue;\n",
		"\tELEVATOR_BACK_MERGE = 2,\n",
		"\tint (*init)(struct request_queue *, const char *);\n",
		"\tblkcg_free_fn *exit;\n",
		"typedef void (blkcg_free_fn)(struct request_queue *);\n",
		"\tconst struct blkg_flags __rcu *attrs;\n",
		"\tunsigned int a : 3;\n",
		"\tunion {\n\t\tu64 word;\n",
		"\tstruct elevator_mq_ops *tail[1];\n",
		"int elv_register(struct elevator_type *);\n",
		"static_assert(sizeof(struct blk_mq_ctx) == 192);\n",
		"static_assert(offsetof(struct blk_mq_ctx, lists) == 8);\n",
		"static_assert(offsetof(struct request_queue, data) == 8);\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the header lacks %q", want)
		}
	}
	if strings.Contains(text, "struct request_queue {") {
		t.Error("the header declares a structure that was not asked for")
	}
	if again := headerText(t, build(t, elevators(false)...)); again != text {
		t.Error("the same BTF gave another header")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// The asserts in the header hold: gcc sees the layout that BTF has, although
// BTF does not have the attributes that made it.
func TestHeaderCompiles(t *testing.T) {
	for _, moved := range []bool{false, true} {
		if _, complaints := compile(t, headerText(t, build(t, elevators(moved)...))); complaints != "" {
			t.Errorf("moved %t: %s", moved, complaints)
		}
	}
}

func TestHeaderWithWrongLayoutDoesNotCompile(t *testing.T) {
	text := headerText(t, build(t, elevators(false)...))
	wrong := strings.Replace(text, "\tbool late", "\tchar early;\n\tbool late", 1)
	wrong = strings.Replace(wrong, "late __aligned(64)", "late", 1)
	if wrong == text {
		t.Fatal("the test changed nothing")
	}
	if _, complaints := compile(t, wrong); !strings.Contains(complaints, "late") {
		t.Errorf("gcc took a wrong layout: %s", complaints)
	}
}

func TestHeaderLeavesOutWhatIsPublic(t *testing.T) {
	dir := t.TempDir()
	public := filepath.Join(dir, "include", "linux")
	must.OK(t, os.MkdirAll(public, 0o755))
	lines := "enum elv_merge {\n\tX,\n};\nstruct blk_mq_ctx;\ntypedef unsigned int __bitwise blkcg_free_fn;\n"
	testtree.File(t, filepath.Join(public, "blk.h"), lines)
	kernel := &Kernel{Spec: build(t, elevators(false)...)}
	must.OK(t, kernel.AddHeaders(dir))
	var b strings.Builder
	must.OK(t, WriteHeader(&b, kernel, readList(t, elevatorList)))
	for text, want := range map[string]bool{"enum elv_merge {": false, "typedef void (blkcg_free_fn)": false, "struct blk_mq_ctx {": true} {
		if strings.Contains(b.String(), text) != want {
			t.Errorf("header has %q: %t, want %t", text, !want, want)
		}
	}
	if err := kernel.AddHeaders(t.TempDir()); err == nil {
		t.Error("a directory without headers was taken")
	}
}

func TestHeaderErrors(t *testing.T) {
	twice := append(elevators(false), &btf.Struct{Name: "elv_twice", Size: 4, Members: []btf.Member{member("a", 0, intType)}},
		&btf.Struct{Name: "elv_twice", Size: 8, Members: []btf.Member{member("a", 0, u64Type)}})
	long := &btf.Struct{Name: strings.Repeat("x", recordName), Size: 4, Members: []btf.Member{member("a", 0, intType)}}
	spec := build(t, append(twice, long)...)
	for _, test := range []struct{ list, want string }{
		{"struct elevator_tags", "has no struct elevator_tags"},
		{"func elevator_type", "has no func elevator_type"},
		{"struct elv_twice", "two different types"},
		{"record gone", "gone"},
		{"struct " + long.Name, "too long"},
		{"tag gone.x rcu", "gone"},
		{"tag elevator_type.gone rcu", "no member gone"},
		{"tag elevator_type.name rcu", "not a pointer"},
		{"feature ISOLIO_HAVE_X export elv_register", "--symvers"},
		{"feature ISOLIO_HAVE_X result elevator_type.name int", "not a function pointer"},
	} {
		err := WriteHeader(&strings.Builder{}, &Kernel{Spec: spec}, readList(t, test.list))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want one with %q", test.list, err, test.want)
		}
	}
}

func TestFeatures(t *testing.T) {
	symvers := filepath.Join(t.TempDir(), "Module.symvers")
	testtree.File(t, symvers, "0x12345678\telv_register\tvmlinux\tEXPORT_SYMBOL_GPL\t\n")
	kernel := &Kernel{Spec: build(t, elevators(false)...)}
	must.OK(t, kernel.AddSymvers(symvers))
	for _, test := range []struct {
		question string
		want     bool
	}{
		{"func elv_register", true},
		{"func elevator_type", false},
		{"export elv_register", true},
		{"export elv_merge", false},
		{"struct elevator_type", true},
		{"struct elv_register", false},
		{"member elevator_type.ops", true},
		{"member elevator_type.ops.merged", true},
		{"member elevator_type.ops.gone", false},
		{"member blk_mq_ctx.lists", true},
		{"member gone.gone", false},
		{`member elevator_type.attrs "const struct blkg_flags *"`, true},
		{`member elevator_type.attrs "struct blkg_flags *"`, false},
		{"result elv_register int", true},
		{"result elevator_mq_ops.merged int", false},
		{"result elevator_mq_ops.exit void", true},
		{`param elevator_mq_ops.init 2 "const char *"`, true},
		{`param elevator_mq_ops.init 3 "const char *"`, false},
		{`param elevator_mq_ops.merged 2 "enum elv_merge"`, true},
		{"paramname elevator_mq_ops.init 2 p1", true},
		{"paramname elevator_mq_ops.init 2 p0", false},
		{"paramname elevator_mq_ops.init 3 p2", false},
		{"paramname gone 1 p0", false},
		{"params elevator_mq_ops.init 2", true},
		{"params elevator_mq_ops.init 1", false},
		{"params gone 0", false},
	} {
		wanted := readList(t, "feature ISOLIO_HAVE_IT "+test.question)
		got, err := wanted.Features[0].ask(kernel)
		if err != nil || got != test.want {
			t.Errorf("%s: got %t, %v, want %t", test.question, got, err, test.want)
		}
	}
	testtree.File(t, symvers, "elv_register\n")
	if err := kernel.AddSymvers(symvers); err == nil || !strings.Contains(err.Error(), symvers+":1:") {
		t.Errorf("a damaged Module.symvers gave %v", err)
	}
}

func TestListErrors(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		{"strukt x", "strukt: unknown word; allowed: include, struct"},
		{"struct", "got 0 words"},
		{"struct a b", "got 2 words"},
		{"optional", "optional: what?"},
		{"optional record x", "record"},
		{"tag x rcu", "STRUCT.MEMBER"},
		{"tag x.y user", "rcu or percpu"},
		{"feature ISOLIO_HAVE_X", "want a macro and a question"},
		{"feature HAVE_X func y", "starts with ISOLIO_HAVE_"},
		{"feature ISOLIO_HAVE_X fun y", "allowed: func, export"},
		{"feature ISOLIO_HAVE_X member y", "STRUCT.MEMBER"},
		{"feature ISOLIO_HAVE_X param y 0 int", "number of parameters"},
		{"feature ISOLIO_HAVE_X param y 1", "got 2 arguments, want 3"},
		{"feature ISOLIO_HAVE_X paramname y 0 z", "number of parameters"},
		{`feature ISOLIO_HAVE_X result y "int`, "quotation mark"},
	} {
		name := filepath.Join(t.TempDir(), "list.txt")
		testtree.File(t, name, "# comment\n"+test.line+"\n")
		_, err := ReadWanted(name)
		if err == nil || !strings.HasPrefix(err.Error(), name+":2: ") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %s:2: and %q", test.line, err, name, test.want)
		}
	}
}
