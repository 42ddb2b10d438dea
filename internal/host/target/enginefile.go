// SPDX-License-Identifier: MIT

package target

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// disk is a machine's files below a root. It is the only reader of what engines
// keep. What a file told holds while it cannot be read or understood: an engine
// may be writing it, or its disk may fail. No file is a reason to stop.
type disk struct {
	root string
	// told is what files told when they were read, by path.
	told map[string]told
	// faults are files that cannot be used, with the reason.
	faults map[string]string
	// trust is true if what is told is taken for true still.
	trust bool
	// keep chooses labels and annotations by their keys; nil for none.
	keep func(key string) bool
	now  time.Time
	// text is that of the last file that was read: there are thousands of them.
	text []byte
}

// told is what a file tells, and which file that was.
type told struct {
	inode    uint64
	modified time.Time
	size     int64
	// settled is true if another write would have shown in the times.
	settled bool
	// stale has it read again.
	stale bool
	value any
	at    time.Time // when it was last asked for
}

// settled is how long ago a file must have been written for another write to
// show in its times.
const settled = time.Second

// largest is how much of a file is read. What a user puts into labels is in it;
// the daemon's memory must not depend on that.
const largest = 8 << 20

// of returns what a file tells. parse is called if the file is another one than
// before, and keeps no part of the text. Of a file that is not there, or is not ours to read, nothing is told.
// It is not sure if the file is there, cannot be used, and never could.
func of[T any](d *disk, file string, parse func(text []byte) (T, error)) (value T, sure bool) {
	known, before := d.told[file]
	if before && d.trust && !known.stale {
		return keep[T](d, file, known), true
	}
	next, text, err := d.read(file, known)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return value, true
	case errors.Is(err, fs.ErrPermission):
		if before {
			return keep[T](d, file, known), true
		}
		return value, true
	case err == nil && text == nil:
		return keep[T](d, file, known), true
	case err == nil:
		var parsed T
		if parsed, err = parse(text); err == nil {
			next.value = parsed
			d.told[file] = next
			return parsed, true
		}
	}
	d.faults[file] = err.Error()
	if before {
		return keep[T](d, file, known), true
	}
	return value, errors.Is(err, errTooLarge)
}

// errTooLarge is a file that is not read again until it changes.
var errTooLarge = errors.New("is too large")

// is reports whether a file is the one that was read.
func (known told) is(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return known.settled && !known.stale && ok && known.inode == stat.Ino && known.size == info.Size() && known.modified.Equal(info.ModTime())
}

// read reads a file, unless it is the known one: then there is no text. The text is
// good until the next file is read.
func (d *disk) read(file string, known told) (told, []byte, error) {
	if known.settled { // most are as they were, and are not opened
		if info, err := os.Stat(file); err == nil && known.is(info) {
			return known, nil, nil
		}
	}
	// Without waiting: a pipe must not stop the daemon.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return told{}, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return told{}, nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return told{}, nil, errors.New("is not a file but " + info.Mode().Type().String())
	case info.Size() > largest:
		return told{}, nil, fmt.Errorf("%w: %d bytes, of which %d are read at most", errTooLarge, info.Size(), largest)
	}
	next := told{modified: info.ModTime(), size: info.Size(), at: d.now, settled: d.now.Sub(info.ModTime()) > settled}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		next.inode = stat.Ino
	}
	if need := int(info.Size()) + bytes.MinRead; cap(d.text) < need {
		d.text = make([]byte, 0, need) // growing to it would take several times so much
	}
	b := bytes.NewBuffer(d.text[:0])
	_, err = b.ReadFrom(io.LimitReader(f, largest))
	d.text = b.Bytes()
	return next, d.text, err
}

// keep returns what a file told, which is not forgotten.
func keep[T any](d *disk, file string, known told) (value T) {
	known.at = d.now
	d.told[file] = known
	value, _ = known.value.(T) // a file has one parser
	return value
}

// forget drops what is known of files that were not asked for this time.
func (d *disk) forget() {
	maps.DeleteFunc(d.told, func(_ string, known told) bool { return known.at != d.now })
}

func (d *disk) path(elem ...string) string {
	return filepath.Join(append([]string{d.root}, elem...)...)
}

func (d *disk) exists(elem ...string) bool {
	_, err := os.Stat(d.path(elem...))
	return err == nil
}

// names are those in a directory. The last ones hold while it cannot be read.
func (d *disk) names(dir string) []string {
	known, before := d.told[dir]
	entries, err := os.ReadDir(dir)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	switch {
	case err == nil:
		d.told[dir] = told{value: names, at: d.now}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission) && !before:
		return nil
	default:
		d.faults[dir] = err.Error()
		if before {
			return keep[[]string](d, dir, known)
		}
	}
	return names
}

// kept are the labels or annotations that rules ask for, none longer than a
// pattern can mean.
func (d *disk) kept(all map[string]string) map[string]string {
	var kept map[string]string
	for key, value := range all {
		if d.keep == nil || !d.keep(key) {
			continue
		}
		if kept == nil {
			kept = map[string]string{}
		}
		// A copy: a part of a text keeps the whole of it in memory.
		kept[key] = strings.Clone(value[:min(len(value), MaxValueBytes)])
	}
	return kept
}

// MaxValueBytes is how much of a label is kept, in bytes.
const MaxValueBytes = 4096

// unmarshal is json.Unmarshal into a new value.
func unmarshal[T any](text []byte) (value T, err error) {
	return value, json.Unmarshal(text, &value)
}
