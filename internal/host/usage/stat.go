// SPDX-License-Identifier: MIT

package usage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/cgroup"
)

// Files of a cgroup, and the scheduler that they are of.
const (
	Scheduler   = "kyber-fairness"
	StatFile    = "io.kyber.stat"
	LatencyFile = "io.kyber.latency"
)

// Counters only grow while the disk has the scheduler; a change of scheduler
// begins them again.
type Counters struct {
	cgroup.IOStat
	// ThrottledUS is how long requests waited because the cgroup had had its
	// share, in microseconds; the sum over hardware queues.
	ThrottledUS uint64
}

// Add adds what another cgroup did.
func (c *Counters) Add(other Counters) {
	c.IOStat = c.Plus(other.IOStat)
	c.ThrottledUS += other.ThrottledUS
}

// Stat is one line of io.kyber.stat: what a cgroup's own requests to one disk
// were, and what they were entitled to.
type Stat struct {
	MajMin string
	Counters
	// Weight is in effect on the disk: the sum where that is the cgroup's weight.
	Weight int
	// SharePPM is the entitled share of the disk among the cgroups that are
	// active now, in millionths; 0 if this one is not.
	SharePPM uint64
	// Latencies of the requests that completed in the last 5 to 10 s.
	Read, Write Latency
}

// Latency is what requests of one direction took.
type Latency struct {
	IOs                         uint64
	P50US, P90US, P99US, P999US uint64
}

// P50 is the median.
func (l Latency) P50() time.Duration { return time.Duration(l.P50US) * time.Microsecond }

// P99 is what one request of a hundred took longer than.
func (l Latency) P99() time.Duration { return time.Duration(l.P99US) * time.Microsecond }

// member is where the number with the kernel's key goes, nil for a key that
// came after this was written.
func (s *Stat) member(key string) *uint64 {
	if to := s.Counter(key); to != nil {
		return to
	}
	switch key {
	case "throttled_usec":
		return &s.ThrottledUS
	case "share_ppm":
		return &s.SharePPM
	}
	if rest, ok := strings.CutPrefix(key, "rlat_"); ok {
		return s.Read.member(rest)
	}
	if rest, ok := strings.CutPrefix(key, "wlat_"); ok {
		return s.Write.member(rest)
	}
	return nil
}

func (l *Latency) member(key string) *uint64 {
	switch key {
	case "ios":
		return &l.IOs
	case "p50_usec":
		return &l.P50US
	case "p90_usec":
		return &l.P90US
	case "p99_usec":
		return &l.P99US
	case "p999_usec":
		return &l.P999US
	}
	return nil
}

// ReadStat reads the io.kyber.stat in a cgroup's directory, a Stat for each
// disk. A cgroup that is gone has none.
func ReadStat(dir string) ([]Stat, error) {
	var all []Stat
	err := eachLine(filepath.Join(dir, StatFile), func(majMin string, words []byte) error {
		s := Stat{MajMin: majMin}
		err := eachNumber(words, func(key string, n uint64) {
			if key == "weight" {
				s.Weight = int(n)
			} else if to := s.member(key); to != nil {
				*to = n
			}
		})
		all = append(all, s)
		return err
	})
	return all, err
}

// eachLine calls do with the disk and the rest of each line of a file. A file
// that is gone, or was while it was read, has no lines.
func eachLine(file string, do func(majMin string, words []byte) error) error {
	text, err := os.ReadFile(file)
	if failure.IsGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		majMin, words, _ := bytes.Cut(bytes.TrimSpace(line), []byte{' '})
		if err := do(string(majMin), words); err != nil {
			return fmt.Errorf("%s: %s: %w", file, majMin, err)
		}
	}
	return nil
}

// eachNumber calls do with each KEY=NUMBER.
func eachNumber(words []byte, do func(key string, n uint64)) error {
	for word := range bytes.FieldsSeq(words) {
		key, value, _ := bytes.Cut(word, []byte{'='})
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a key and a number", word)
		}
		do(string(key), n)
	}
	return nil
}

// Check returns nil if cgroups below root have the scheduler's files.
func Check(root string) error {
	file := filepath.Join(root, StatFile)
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return failure.Unsupportedf("%s is not there: kyber-fairness is not loaded; `isolio doctor` says how it can be", file)
	}
	return err
}
