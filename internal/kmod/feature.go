// SPDX-License-Identifier: MIT

package kmod

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// FeaturePrefix starts the name of every feature macro.
const FeaturePrefix = "ISOLIO_HAVE_"

// Feature is a macro that is 1 or 0 by what a kernel's BTF says.
type Feature struct {
	Macro    string
	Question string // the words of the list, for the reader of the header
	ask      func(*Kernel) (bool, error)
}

var macroName = regexp.MustCompile("^" + FeaturePrefix + "[A-Z0-9_]+$")

// parseFeature reads MACRO QUESTION. The questions are:
//
//	func NAME                     the kernel has this function
//	export NAME                   and modules may use it
//	struct NAME                   the kernel has this structure
//	enumerator NAME               one of the kernel's enums has this value
//	member STRUCT.MEMBER          the structure has this member; MEMBER may be A.B
//	member STRUCT.MEMBER TYPE     and it is of this type
//	result FUNCTION TYPE          the function returns this type
//	param FUNCTION N TYPE         the function's Nth parameter, from 1, is of this type
//	paramname FUNCTION N NAME     and has this name
//	params FUNCTION N             the function has N parameters
//
// A FUNCTION is a name, or STRUCT.MEMBER for a function pointer. When the
// thing asked about is not there at all the answer is no.
func parseFeature(words []string) (Feature, error) {
	if len(words) < 3 {
		return Feature{}, errors.New("feature: want a macro and a question, such as: ISOLIO_HAVE_X func NAME")
	}
	f := Feature{Macro: words[0], Question: strings.Join(words[1:], " ")}
	if !macroName.MatchString(f.Macro) {
		return Feature{}, fmt.Errorf("feature: %s: want a name that starts with %s, in capitals", f.Macro, FeaturePrefix)
	}
	arity := map[string][]int{"func": {1}, "export": {1}, "struct": {1}, "enumerator": {1}, "member": {1, 2}, "result": {2}, "param": {3}, "paramname": {3}, "params": {2}}
	kind, args := words[1], words[2:]
	counts, ok := arity[kind]
	if !ok {
		return Feature{}, fmt.Errorf("feature: %s: unknown question; allowed: func, export, struct, enumerator, member, result, param, paramname, params", kind)
	}
	if !slices.Contains(counts, len(args)) {
		return Feature{}, fmt.Errorf("feature: %s: got %d arguments, want %d", kind, len(args), counts[0])
	}
	number := 0
	if strings.HasPrefix(kind, "param") {
		var err error
		if number, err = strconv.Atoi(args[1]); err != nil || number < 0 || (kind != "params" && number == 0) {
			return Feature{}, fmt.Errorf("feature: %s: %s: want a number of parameters", kind, args[1])
		}
	}
	if kind == "member" && !strings.Contains(args[0], ".") {
		return Feature{}, fmt.Errorf("feature: member: %s: want STRUCT.MEMBER", args[0])
	}
	f.ask = func(k *Kernel) (bool, error) {
		if kind == "export" {
			return k.exports(args[0])
		}
		return answer(k.Spec, kind, args, number)
	}
	return f, nil
}

func answer(spec *btf.Spec, kind string, args []string, number int) (bool, error) {
	switch kind {
	case "func":
		_, err := findFunc(spec, args[0])
		return found(err)
	case "struct":
		_, err := findComposite(spec, args[0])
		return found(err)
	case "enumerator":
		return hasEnumerator(spec, args[0])
	case "member":
		typ, err := findMember(spec, args[0])
		if err != nil {
			return found(err)
		}
		return len(args) == 1 || cType(typ, "") == args[1], nil
	}
	proto, err := findProto(spec, args[0])
	if err != nil {
		return found(err)
	}
	switch kind {
	case "result":
		return cType(proto.Return, "") == args[1], nil
	case "params":
		return len(proto.Params) == number, nil
	case "paramname":
		return len(proto.Params) >= number && proto.Params[number-1].Name == args[2], nil
	default:
		return len(proto.Params) >= number && cType(proto.Params[number-1].Type, "") == args[2], nil
	}
}

func hasEnumerator(spec *btf.Spec, name string) (bool, error) {
	for typ, err := range spec.All() {
		if err != nil {
			return false, err
		}
		if enum, ok := typ.(*btf.Enum); ok && slices.ContainsFunc(enum.Values, func(v btf.EnumValue) bool { return v.Name == name }) {
			return true, nil
		}
	}
	return false, nil
}

func found(err error) (bool, error) {
	if errors.Is(err, btf.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// findMember returns the type of STRUCT.MEMBER, where MEMBER may go deeper.
func findMember(spec *btf.Spec, path string) (btf.Type, error) {
	name, rest, _ := strings.Cut(path, ".")
	typ, err := findComposite(spec, name)
	if err != nil {
		return nil, err
	}
	for member := range strings.SplitSeq(rest, ".") {
		fields := flatten(btf.UnderlyingType(typ))
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == member })
		if i < 0 {
			return nil, fmt.Errorf("struct %s has no member %s: %w", name, rest, btf.ErrNotFound)
		}
		typ = fields[i].typ
	}
	return typ, nil
}

// findProto returns the prototype of a function or, for STRUCT.MEMBER, of a
// function pointer.
func findProto(spec *btf.Spec, function string) (*btf.FuncProto, error) {
	if !strings.Contains(function, ".") {
		return findFunc(spec, function)
	}
	typ, err := findMember(spec, function)
	if err != nil {
		return nil, err
	}
	proto := asProto(typ)
	if proto == nil {
		return nil, fmt.Errorf("%s is not a function pointer but %s", function, cType(typ, ""))
	}
	return proto, nil
}

// asProto returns the prototype behind a pointer to a function, or nil.
func asProto(typ btf.Type) *btf.FuncProto {
	if pointer, ok := btf.UnderlyingType(typ).(*btf.Pointer); ok {
		typ = pointer.Target
	}
	proto, _ := btf.UnderlyingType(typ).(*btf.FuncProto)
	return proto
}
