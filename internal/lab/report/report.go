// SPDX-License-Identifier: MIT

// Package report writes one experiment's result as a page for a browser or
// a printer: a single HTML file with its plots (SVG), style and figures
// inside, which loads nothing from anywhere.
//
// The page is a function of the document alone: the same document gives the
// same bytes, on any day and on any machine.
package report

import (
	"bytes"
	_ "embed" // page.html and page.css
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"isolio/internal/failure"
	"isolio/internal/lab/result"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// Option changes what the page says about the run.
type Option func(*options)

type options struct {
	command string
}

// Command sets the line that the page prints under "How to reproduce". By
// default the page names the experiment file, the kernel line and the
// schedulers, as far as the document knows them.
func Command(line string) Option {
	return func(o *options) { o.command = line }
}

// Render writes the page for doc to w.
func Render(w io.Writer, doc *result.Document, opts ...Option) error {
	var o options
	for _, set := range opts {
		set(&o)
	}
	p, err := newPage(doc, o)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := pageTemplate.Execute(w, p); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Write writes the page for doc to the file path. A reader never sees half a
// page: it is written beside path and renamed. A path that is not a regular
// file, such as /dev/stdout, is written to directly.
func Write(path string, doc *result.Document, opts ...Option) error {
	if err := CheckPath(path); err != nil {
		return err
	}
	var page bytes.Buffer
	if err := Render(&page, doc, opts...); err != nil {
		return err
	}
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return writeInto(path, page.Bytes())
	}
	// A link keeps pointing where it did: its target is what is replaced.
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return replace(path, page.Bytes())
}

// CheckPath says, before an experiment runs for minutes, whether Write could
// put a page at path. It changes nothing.
func CheckPath(path string) error {
	if path == "" {
		return failure.Usagef("report: no file name: give one, such as report.html")
	}
	fi, err := os.Stat(path)
	switch {
	case err == nil && fi.IsDir():
		return failure.Usagef("report %s: is a directory: give a file name in it", path)
	case err == nil && fi.Mode()&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice:
		return failure.Usagef("report %s: is a disk, which the page would overwrite: give a file name", path)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return failure.Usagef("report %s: %w", path, err)
	}
	dir := filepath.Dir(path)
	fi, err = os.Stat(dir)
	if err != nil {
		return failure.Usagef("report %s: no directory %s: make it first", path, dir)
	}
	if !fi.IsDir() {
		return failure.Usagef("report %s: %s is not a directory", path, dir)
	}
	return nil
}

func writeInto(path string, page []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = f.Write(page)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// replace puts page at path by a rename within path's directory.
func replace(path string, page []byte) error {
	err := renameio.WriteFile(path, page, 0o644, renameio.WithStaticPermissions(0o644), renameio.WithTempDir(filepath.Dir(path)))
	if err != nil {
		return fmt.Errorf("report %s: %w", path, err)
	}
	return nil
}
