// SPDX-License-Identifier: MIT

package rule

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"isolio/internal/host/weight"
)

type fileClass struct {
	Weight *int64 `toml:"weight"`
	Labels *bool  `toml:"labels"`
}

// className is what a class may be called: it is to be quoted nowhere.
var className = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// classKey is a class among what may be there once.
type classKey string

func (c *checker) readClasses() {
	for _, name := range slices.Sorted(maps.Keys(c.file.Class)) {
		f := c.file.Class[name]
		table := "class." + name
		if !className.MatchString(name) || name == weight.Sum.String() || name == "default" {
			c.fail(table, "", "has a name that no class can have", `letters, digits and _ . - , 63 at most; not "sum", not "default"`)
			continue
		}
		if before := c.once(classKey(name), c.lineOf(table)); before != "" {
			c.fail(table, "", "is in "+before+" as well", "it in one of the files")
			continue
		}
		class := Class{Labels: f.Labels != nil && *f.Labels, At: c.at}
		class.At.Line = c.lineOf(table)
		if class.Weight = c.number(table, "weight", f.Weight); f.Weight == nil {
			c.fail(table, "weight", "is missing", numbers)
		}
		c.classes[name] = class
	}
}

func (r *reader) classNames() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.classes)) {
		names = append(names, fmt.Sprintf("%q", name))
	}
	return strings.Join(names, ", ")
}
