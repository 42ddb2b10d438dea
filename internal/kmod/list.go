// SPDX-License-Identifier: MIT

package kmod

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"isolio/internal/failure"
)

// Wanted is what a header shall declare; it is read from a list such as
// kernel/compat/private-types.txt, which describes the format.
type Wanted struct {
	Includes []string  // public headers, as in #include <...>
	Decls    []Decl    // private declarations
	Recorded []string  // public structures whose layout the module records
	Tags     []Tag     // address spaces that BTF may lack
	Features []Feature // macros to deduce

	ModuleVersion string // of the modules that are built, for modinfo; "" for none
}

// Decl is one private declaration.
type Decl struct {
	Kind     string // struct, union, enum, typedef or func
	Name     string
	Optional bool // a kernel may lack it
}

// Tag says in which address space a pointer in a private structure points, for
// sparse: compilers that older kernels are built with keep it to themselves.
type Tag struct {
	Member   string // STRUCT.MEMBER
	Space    string // rcu or percpu
	Optional bool
}

// ReadWanted reads lists and joins them. An error names file and line.
func ReadWanted(files ...string) (*Wanted, error) {
	wanted := &Wanted{}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, failure.Usagef("%w", err)
		}
		err = wanted.read(name, file)
		file.Close()
		if err != nil {
			return nil, err
		}
	}
	return wanted, nil
}

func (w *Wanted) read(name string, r io.Reader) error {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields, err := splitFields(line)
		if err == nil && len(fields) > 0 {
			err = w.add(fields)
		}
		if err != nil {
			return failure.Usagef("%s:%d: %w", name, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return failure.Usagef("%w; allowed: a list of declarations", err)
	}
	return nil
}

func (w *Wanted) add(fields []string) error {
	word, rest := fields[0], fields[1:]
	optional := word == "optional"
	if optional {
		if len(rest) == 0 {
			return errors.New("optional: what?; allowed: struct, union, enum, typedef, func, tag")
		}
		word, rest = rest[0], rest[1:]
	}
	switch word {
	case "include", "record":
		if len(rest) != 1 || optional {
			return fmt.Errorf("%s: got %d words, want one name", word, len(rest))
		}
		if word == "include" {
			w.Includes = append(w.Includes, rest[0])
		} else {
			w.Recorded = append(w.Recorded, rest[0])
		}
	case "tag":
		if len(rest) != 2 || !strings.Contains(rest[0], ".") || (rest[1] != "rcu" && rest[1] != "percpu") {
			return errors.New("tag: want STRUCT.MEMBER and rcu or percpu")
		}
		w.Tags = append(w.Tags, Tag{Member: rest[0], Space: rest[1], Optional: optional})
	case "struct", "union", "enum", "typedef", "func":
		if len(rest) != 1 {
			return fmt.Errorf("%s: got %d words, want one name", word, len(rest))
		}
		w.Decls = append(w.Decls, Decl{Kind: word, Name: rest[0], Optional: optional})
	case "feature":
		feature, err := parseFeature(rest)
		if err != nil {
			return err
		}
		w.Features = append(w.Features, feature)
	default:
		return fmt.Errorf("%s: unknown word; allowed: include, struct, union, enum, typedef, func, optional, tag, record, feature", word)
	}
	return nil
}

// splitFields splits a line into words; a word may be quoted to hold spaces.
func splitFields(line string) ([]string, error) {
	var fields []string
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" {
			return fields, nil
		}
		end := strings.IndexAny(line, " \t")
		if line[0] == '"' {
			line = line[1:]
			if end = strings.IndexByte(line, '"'); end < 0 {
				return nil, errors.New("a quotation mark is missing")
			}
			fields = append(fields, line[:end])
			line = line[end+1:]
			continue
		}
		if end < 0 {
			end = len(line)
		}
		fields = append(fields, line[:end])
		line = line[end:]
	}
}
