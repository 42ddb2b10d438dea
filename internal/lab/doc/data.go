// SPDX-License-Identifier: MIT

package doc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/lab/archive"
)

// line is what a test or program printed: a JSON object whose `table` names the table that it is of.
type line map[string]any

// Data are lines by their tables.
type Data map[string][]line

// steps is the table of transcripts: each line is a command and what it printed.
const steps = "steps"

// keptMost is how many lines of a table are kept in results/. Longer tables, and steps, stand in their
// pages alone, and take a measurement to be made in another way.
const keptMost = 200

// readData reads a file of lines.
func readData(file string) (Data, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	data := Data{}
	for in := json.NewDecoder(bytes.NewReader(text)); ; {
		var l line
		if err := in.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, failure.Usagef("data %s: byte %d: %w; allowed: JSON objects, one a line", file, in.InputOffset(), err)
		}
		table, _ := l["table"].(string)
		if table == "" {
			return nil, failure.Usagef("data %s: a line names no table; allowed: \"table\": NAME in each", file)
		}
		data[table] = append(data[table], l)
	}
	if len(data) == 0 {
		return nil, failure.Usagef("data %s: is empty; the test or program that it is of printed nothing", file)
	}
	return data, nil
}

// replace has the files' lines in place of those of the same tables. Lines that name a kernel were measured,
// and get the version that they were measured at; what else there is comes out the same at any version.
func (d Data) replace(files []string, version string) error {
	read := Data{}
	for _, file := range files {
		more, err := readData(file)
		if err != nil {
			return err
		}
		for table, lines := range more {
			read[table] = append(read[table], lines...)
		}
	}
	for _, lines := range read {
		for _, l := range lines {
			if l["kernel"] != nil && version != "" {
				l["version"] = version
			}
		}
	}
	maps.Copy(d, read)
	return nil
}

// keptFile is where the data of a page is kept.
func keptFile(page string) string {
	return "results/data/" + strings.TrimSuffix(path.Base(filepath.ToSlash(page)), ".md") + ".jsonl"
}

// keptData is what is kept of a page's data. Of two pages of one name the one in docs/results/ has it.
func keptData(t archive.Tree, page string) (Data, error) {
	name := strings.TrimSuffix(path.Base(filepath.ToSlash(page)), ".md")
	if of, err := Page(t, name); err != nil || of != filepath.ToSlash(page) {
		return Data{}, nil // one on top of the tree, or the other of the two
	}
	data, err := readData(filepath.Join(string(t), keptFile(page)))
	if errors.Is(err, fs.ErrNotExist) {
		return Data{}, nil
	}
	return data, err
}

// kept is the text of the lines that are kept.
func (d Data) kept() []byte {
	var b bytes.Buffer
	for _, table := range slices.Sorted(maps.Keys(d)) {
		if table == steps || len(d[table]) > keptMost {
			continue
		}
		for _, l := range d[table] {
			text, err := json.Marshal(l)
			if err != nil {
				panic(err) // it was JSON before
			}
			b.Write(append(text, '\n'))
		}
	}
	return b.Bytes()
}

// placed is an error if the page has no place for a table or a step.
func (d Data) placed(page string, used map[string]bool) error {
	var errs []error
	for _, table := range slices.Sorted(maps.Keys(d)) {
		if table != steps && !used[table] {
			errs = append(errs, failure.Usagef("%s: has no place for table %q; allowed: a marker with data = %q", page, table, table))
		}
	}
	for _, l := range d[steps] {
		if name := fmt.Sprint(l["step"]); !used[steps+" "+name] {
			errs = append(errs, failure.Usagef("%s: has no place for step %q; allowed: a marker with step = %q", page, name, name))
		}
	}
	return errors.Join(errs...)
}
