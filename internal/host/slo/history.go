// SPDX-License-Identifier: MIT

package slo

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"isolio/internal/plan"
)

// The history keeps, for 30 days, how many intervals promises were demanded and kept: a
// file of fixed size for each promise.
//
// A file is a header, two open records and a ring of slots, a slot for each five minutes.
// What is counted now is in an open record, written in turns, each time with a higher
// sequence number: a write that is torn by a crash leaves the other one. When five
// minutes are over, the counts go to their slot. A record is 64 bytes with a checksum, and so
// crosses no sector; one that is damaged is as if it were empty. A file whose header is damaged is kept
// aside, and its records go on. A slot says which five
// minutes it is about, so that a clock that is set moves counts to other slots, and
// takes none away: where it goes back, the counts are added to those that are there.

// HistoryDir is where histories are kept, below the root.
const HistoryDir = "var/lib/isolio/promises"

const (
	// Step is how long the counts of a slot are about.
	Step = 5 * time.Minute
	// Keeps is how far a history goes back.
	Keeps = 30 * 24 * time.Hour
	// Most is how many promises a machine has histories of.
	Most = 200
	// FileBytes is how large a history is.
	FileBytes = ringAt + slots*recordBytes

	slots       = int64(Keeps / Step)
	recordBytes = 64
	sector      = 4096
	openAt      = sector
	ringAt      = 3 * sector
	mostMeta    = sector - 64
	suffix      = ".history"
)

var magic = []byte("isolio promise 1\n")

// versionAt is where the version is in it.
const versionAt = len("isolio promise ")

// Counts are numbers of intervals.
type Counts struct {
	// Judged are those of which the counters could be read.
	Judged, Demanded, Kept uint32
	Missed                 [NrCauses]uint32
}

// Count adds an interval.
func (c *Counts) Count(v Verdict) {
	c.Judged++
	switch {
	case !v.Demanded:
		return
	case v.Kept:
		c.Kept++
	default:
		c.Missed[v.Cause]++
	}
	c.Demanded++
}

// Plus are both.
func (c Counts) Plus(more Counts) Counts {
	c.Judged += more.Judged
	c.Demanded += more.Demanded
	c.Kept += more.Kept
	for i := range c.Missed {
		c.Missed[i] += more.Missed[i]
	}
	return c
}

// Meta says which promise a history is of.
type Meta struct {
	// Promise is the container, pod or unit, as the rules have it.
	Promise string `json:"promise"`
	// Disk is the name that the disk had last; Identity outlasts a boot.
	Disk     string `json:"disk"`
	Identity string `json:"identity"`
	// Terms are what was promised, in words.
	Terms string `json:"terms"`
	// ObjectivePct is the part of the demanded intervals that are to be kept.
	ObjectivePct float64 `json:"objective_pct"`
}

// File is the name of the history of a promise. What was promised may change.
func (m Meta) File() string {
	sum := sha256.Sum256([]byte(m.Promise + "\x00" + m.Identity))
	return fmt.Sprintf("%x", sum[:12]) + suffix
}

// Bucket is what was counted in one step.
type Bucket struct {
	From time.Time
	Counts
}

// record is what a slot has.
type record struct {
	number uint32 // of the step, since 1970
	turn   uint32
	Counts
}

func (r record) encode() []byte {
	b := make([]byte, 0, recordBytes)
	for _, n := range append([]uint32{r.number, r.turn, r.Judged, r.Demanded, r.Kept}, r.Missed[:]...) {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	b = append(b, make([]byte, recordBytes-4-len(b))...)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// decode reads a record; ok is false for one that is empty or damaged.
func decode(b []byte) (r record, ok bool) {
	if len(b) < recordBytes || binary.LittleEndian.Uint32(b[recordBytes-4:]) != crc32.ChecksumIEEE(b[:recordBytes-4]) {
		return r, false
	}
	next := func() (n uint32) {
		n, b = binary.LittleEndian.Uint32(b), b[4:]
		return n
	}
	r.number, r.turn, r.Judged, r.Demanded, r.Kept = next(), next(), next(), next(), next()
	for i := range r.Missed {
		r.Missed[i] = next()
	}
	return r, r.number > 0
}

func numberOf(at time.Time) uint32 { return uint32(max(1, at.Unix()/int64(Step/time.Second))) }

func (r record) bucket() Bucket {
	return Bucket{time.Unix(int64(r.number)*int64(Step/time.Second), 0).UTC(), r.Counts}
}

func slotAt(number uint32) int64 { return ringAt + int64(number)%slots*recordBytes }

func header(m Meta) ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(text) > mostMeta {
		return nil, fmt.Errorf("promise %.40s...: its description has %d bytes; allowed: %d", m.Promise, len(text), mostMeta)
	}
	b := append(bytes.Clone(magic), make([]byte, 8)...)
	binary.LittleEndian.PutUint32(b[len(magic):], uint32(len(text)))
	binary.LittleEndian.PutUint32(b[len(magic)+4:], crc32.ChecksumIEEE(text))
	b = append(b, text...)
	return append(b, make([]byte, sector-len(b))...), nil
}

// What a file may be instead of a history.
var (
	errDamaged = errors.New("is not a history, or is damaged")
	errNewer   = errors.New("is of a newer version; update isolio")
)

// metaOf reads the header of a history.
func metaOf(text []byte) (m Meta, err error) {
	if rest, ok := bytes.CutPrefix(text, magic[:versionAt]); ok {
		line, _, _ := bytes.Cut(rest, []byte{'\n'})
		if n, err := strconv.ParseUint(string(line), 10, 16); err == nil && n > 1 {
			return m, errNewer
		}
	}
	begin := len(magic) + 8
	if int64(len(text)) != FileBytes || !bytes.HasPrefix(text, magic) {
		return m, errDamaged
	}
	length := int(binary.LittleEndian.Uint32(text[len(magic):]))
	if length > mostMeta || crc32.ChecksumIEEE(text[begin:begin+length]) != binary.LittleEndian.Uint32(text[len(magic)+4:]) {
		return m, errDamaged
	}
	if json.Unmarshal(text[begin:begin+length], &m) != nil {
		return m, errDamaged
	}
	return m, nil
}

// fit has what is left of a damaged history where it belongs.
func fit(text []byte) []byte {
	whole := make([]byte, FileBytes)
	copy(whole, text)
	return whole
}

// parse reads a history. Of what is damaged the rest is there, also with an error.
func parse(text []byte) (m Meta, open record, ring map[uint32]record, err error) {
	if m, err = metaOf(text); err != nil {
		text = fit(text)
	}
	ring = map[uint32]record{}
	for at := int64(ringAt); at < FileBytes; at += recordBytes {
		if r, ok := decode(text[at:]); ok && slotAt(r.number) == at {
			ring[r.number] = r
		}
	}
	for turn := range int64(2) {
		if r, ok := decode(text[openAt+turn*sector:]); ok && r.turn > open.turn {
			open = r
		}
	}
	// The open record goes on from its slot: it has all that the slot has, and more.
	if open.number > 0 && open.Judged >= ring[open.number].Judged {
		ring[open.number] = open
	}
	return m, open, ring, err
}

// History is the histories of a machine.
type History struct{ dir string }

// HistoryAt is the store of the machine below root, "" for /.
func HistoryAt(root string) History { return History{filepath.Join("/", root, HistoryDir)} }

// Past is a history as it was kept.
type Past struct {
	Meta
	// Buckets are by time; those that are empty are left out.
	Buckets []Bucket
}

// Read reads all histories from a time on until another. A file that is damaged is in faults, by its name.
func (s History) Read(from, until time.Time) (all []Past, faults map[string]error, err error) {
	names, err := s.names()
	if err != nil {
		return nil, nil, err
	}
	faults = map[string]error{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(s.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since it was listed
		}
		var p Past
		var ring map[uint32]record
		if err == nil {
			p.Meta, _, ring, err = parse(text)
		}
		if err != nil {
			faults[filepath.Join(s.dir, name)] = err
			continue
		}
		last := numberOf(until)
		for n := max(numberOf(from), last-min(last, uint32(slots)-1)); n <= last; n++ {
			if r, ok := ring[n]; ok && r.Judged > 0 {
				p.Buckets = append(p.Buckets, r.bucket())
			}
		}
		all = append(all, p)
	}
	return all, faults, nil
}

// names are the files of histories.
func (s History) names() ([]string, error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Series is the history of one promise, to be added to.
type Series struct {
	// Aside is where a damaged file was kept, "" for none.
	Aside string
	file  *os.File
	open  record
}

// Open opens the history of a promise, or begins it. Where there are too many, those go that
// have nothing of the last 30 days.
func (s History) Open(m Meta, now time.Time) (*Series, error) {
	name := filepath.Join(s.dir, m.File())
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	head, errHead := header(m)
	if errHead != nil {
		return nil, errHead
	}
	if err != nil {
		if err := s.room(now); err != nil {
			return nil, err
		}
		text = append(head, make([]byte, FileBytes-int64(len(head)))...)
	}
	was, open, _, errParse := parse(text)
	aside := ""
	switch {
	case errors.Is(errParse, errNewer):
		return nil, fmt.Errorf("%s: %w", name, errParse)
	case errParse != nil:
		// The name of the file says which promise it is of, and each record has a checksum.
		if aside, err = plan.KeepAside(name); err != nil {
			return nil, err
		}
		text = fit(text)
	}
	if err != nil || errParse != nil || was != m {
		if err := (plan.OS{}).Create(name, string(append(head, text[len(head):]...))); err != nil {
			return nil, err
		}
	}
	// Any user may read it, whatever the daemon's umask: `isolio sla report` does.
	if err := os.Chmod(s.dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	return &Series{Aside: aside, file: f, open: open}, nil
}

// room makes room for one more history.
func (s History) room(now time.Time) error {
	names, err := s.names()
	if err != nil || len(names) < Most {
		return err
	}
	left := len(names)
	for _, name := range names {
		file := filepath.Join(s.dir, name)
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		_, _, ring, err := parse(text)
		recent := err != nil // what it has is not known
		for n := range ring {
			recent = recent || n >= numberOf(now.Add(-Keeps))
		}
		if !recent && os.Remove(file) == nil {
			left--
		}
	}
	if left >= Most {
		return fmt.Errorf("%s: there are histories of %d promises, of the last %d days; allowed: %d; remove those of promises that are gone", s.dir, left, int(Keeps/(24*time.Hour)), Most)
	}
	return nil
}

// Add adds what was counted until now, and keeps it.
func (s *Series) Add(now time.Time, c Counts) error {
	number := numberOf(now)
	var errClose error
	if number != s.open.number {
		errClose = s.closeSlot()
		s.open = record{number: number, turn: s.open.turn, Counts: s.slot(number).Counts}
	}
	s.open.Counts = s.open.Plus(c)
	s.open.turn++
	_, err := s.file.WriteAt(s.open.encode(), openAt+int64(s.open.turn%2)*sector)
	return errors.Join(errClose, err)
}

// slot is what is kept of a step already; nothing where that is none, or damaged.
func (s *Series) slot(number uint32) record {
	b := make([]byte, recordBytes)
	if _, err := s.file.ReadAt(b, slotAt(number)); err != nil {
		return record{}
	}
	if r, ok := decode(b); ok && r.number == number {
		return r
	}
	return record{}
}

// closeSlot writes the open record to its slot.
func (s *Series) closeSlot() error {
	if s.open.number == 0 {
		return nil
	}
	if _, err := s.file.WriteAt(s.open.encode(), slotAt(s.open.number)); err != nil {
		return err
	}
	return s.file.Sync()
}

// Close writes what is open, and ends.
func (s *Series) Close() error { return errors.Join(s.closeSlot(), s.file.Close()) }
