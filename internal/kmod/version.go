// SPDX-License-Identifier: MIT

package kmod

import (
	"bytes"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"isolio/internal/failure"
)

// Version tells one build of a module from another.
type Version struct {
	// Name is what modinfo shows, "" where the module has none.
	Name string
	// build is the note with the linker's build ID, "" where it has none.
	build string
}

// String is the version for a reader. Two builds may have the same name.
func (v Version) String() string {
	if v.Name == "" {
		return "of unknown version"
	}
	return v.Name
}

// Same reports whether both are one build, as far as that can be told.
func (v Version) Same(other Version) bool {
	if v.build != "" && other.build != "" {
		return v.build == other.build
	}
	return v.Name == other.Name
}

// buildNote is the section, and the file in sysfs, with the build ID.
const buildNote = ".note.gnu.build-id"

// FileVersion is the version of a module's file.
func FileVersion(ko string) (v Version, err error) {
	text, err := ReadModule(ko)
	if err != nil {
		return v, err
	}
	file, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return v, failure.Usagef("%s: not a kernel module: %w", ko, err)
	}
	if section := file.Section(buildNote); section != nil {
		note, err := sectionData(section, len(text))
		if err != nil {
			return v, failure.Usagef("%s: %w", ko, err)
		}
		v.build = string(note)
	}
	if section := file.Section(".modinfo"); section != nil {
		info, err := sectionData(section, len(text))
		if err != nil {
			return v, failure.Usagef("%s: %w", ko, err)
		}
		for entry := range bytes.SplitSeq(info, []byte{0}) {
			if name, ok := strings.CutPrefix(string(entry), "version="); ok {
				v.Name = name
			}
		}
	}
	return v, nil
}

// LoadedVersion is the version of a module that the machine below root has loaded; there is false
// where it is not.
func LoadedVersion(root, module string) (v Version, there bool, err error) {
	dir := filepath.Join("/", root, "sys/module", asKernel(module))
	if _, err := os.Stat(dir); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return v, false, err
	}
	for file, to := range map[string]*string{"version": &v.Name, filepath.Join("notes", buildNote): &v.build} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return v, true, err
		}
		*to = string(text)
	}
	v.Name = strings.TrimSpace(v.Name)
	return v, true, nil
}
