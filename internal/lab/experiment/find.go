// SPDX-License-Identifier: MIT

package experiment

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/failure"
)

// Shelves are where experiments are looked for by name, the first that there is: in a
// source tree, and where packages put them.
var Shelves = []string{"experiments", "/usr/share/isolio/experiments"}

// Shelf is the first of the shelves that there is; "" if there is none.
func Shelf() string {
	for _, dir := range Shelves {
		if files, err := filepath.Glob(filepath.Join(dir, "*", "*"+suffix)); err == nil && len(files) > 0 {
			return dir
		}
	}
	return ""
}

// suffix is that of an experiment's file.
const suffix = ".toml"

// Find is the file of an experiment that is given as a file, or by its name.
func Find(given string) (string, error) {
	if strings.ContainsRune(given, filepath.Separator) || strings.HasSuffix(given, suffix) {
		return given, nil
	}
	if _, err := os.Stat(given); err == nil {
		return "", failure.Usagef("experiment %s: is no file of an experiment; allowed: a file whose name ends with %s", given, suffix)
	}
	shelf := Shelf()
	if shelf == "" {
		return "", failure.Usagef("experiment %s: there are no experiments in %s to find it by its name; allowed: a file, or a name in the directory of isolio's source",
			given, strings.Join(Shelves, " or "))
	}
	all, err := All(shelf)
	if err != nil {
		return "", err
	}
	for _, x := range all {
		if x.Name == given {
			return x.File, nil
		}
	}
	return "", failure.Usagef("experiment %s: is not in %s; allowed: a file, or a name that `isolio lab --list` shows", given, shelf)
}

// All are the experiments in the directory and below it, by their names. Each has the name
// of its file.
func All(dir string) ([]*Experiment, error) {
	var all []*Experiment
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != suffix {
			return err
		}
		x, err := Load(file)
		if err != nil {
			return err
		}
		if name := strings.TrimSuffix(filepath.Base(file), suffix); x.Name != name {
			return failure.Usagef("%s: name: is %q; allowed: the file's, %q", file, x.Name, name)
		}
		all = append(all, x)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, failure.Usagef("experiments: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("experiments: %w", err)
	}
	slices.SortFunc(all, func(a, b *Experiment) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}
