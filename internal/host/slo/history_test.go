// SPDX-License-Identifier: MIT

package slo

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"isolio/internal/must"
)

var shop = Meta{Promise: "unit shop.service", Disk: "nvme0n1", Identity: "wwid-1", Terms: "reads: 3000 IOPS", ObjectivePct: 99.9}

// noon is on the border of two steps.
var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func counts(judged, demanded, kept, disk uint32) Counts {
	c := Counts{Judged: judged, Demanded: demanded, Kept: kept}
	c.Missed[SlowDisk] = disk
	return c
}

func open(t *testing.T, root string, m Meta, now time.Time) *Series {
	t.Helper()
	s, err := HistoryAt(root).Open(m, now)
	must.OK(t, err)
	return s
}

func add(t *testing.T, s *Series, now time.Time, c Counts) {
	t.Helper()
	must.OK(t, s.Add(now, c))
}

// sum is all of the one history.
func sum(t *testing.T, root string, from, until time.Time) (all Counts, buckets []Bucket) {
	t.Helper()
	past, faults, err := HistoryAt(root).Read(from, until)
	if err != nil || len(faults) > 0 || len(past) != 1 {
		t.Fatalf("%+v, %v, %v", past, faults, err)
	}
	for _, b := range past[0].Buckets {
		all = all.Plus(b.Counts)
	}
	return all, past[0].Buckets
}

func TestCount(t *testing.T) {
	var c Counts
	c.Count(Verdict{})
	c.Count(Verdict{Demanded: true, Kept: true})
	c.Count(Verdict{Demanded: true, Cause: SlowDisk})
	if c != counts(3, 2, 1, 1) {
		t.Errorf("%+v", c)
	}
}

// A daemon that was killed goes on where it was, within the same five minutes as well.
func TestRestart(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, shop, noon)
	add(t, s, noon.Add(time.Minute), counts(10, 8, 7, 1))
	add(t, s, noon.Add(2*time.Minute), counts(10, 10, 10, 0))
	s = open(t, root, shop, noon) // the first one was killed
	add(t, s, noon.Add(3*time.Minute), counts(1, 1, 0, 1))
	add(t, s, noon.Add(6*time.Minute), counts(5, 5, 5, 0))
	must.OK(t, s.Close())
	all, buckets := sum(t, root, noon, noon.Add(time.Hour))
	if all != counts(26, 24, 22, 2) || len(buckets) != 2 || buckets[0].Counts != counts(21, 19, 17, 2) || !buckets[1].From.Equal(noon.Add(Step)) {
		t.Errorf("%+v", buckets)
	}
	if _, buckets = sum(t, root, noon.Add(Step), noon.Add(time.Hour)); len(buckets) != 1 {
		t.Errorf("of the last step: %+v", buckets)
	}
}

// A crash while a record is written costs what was counted since the record before.
func TestTornWrite(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 30 {
		root := t.TempDir()
		s := open(t, root, shop, noon)
		at, kept, last := noon, uint32(0), uint32(0)
		for range 1 + r.IntN(40) {
			at = at.Add(time.Duration(r.IntN(100)) * time.Second)
			last = uint32(r.IntN(10) + 1)
			add(t, s, at, counts(last, last, last, 0))
			kept += last
		}
		// The last write was of the open record: of its bytes only some came to the disk.
		file := filepath.Join(root, HistoryDir, shop.File())
		text, err := os.ReadFile(file)
		must.OK(t, err)
		torn := openAt + int64(s.open.turn%2)*sector + int64(r.IntN(recordBytes))
		text[torn] ^= byte(1 + r.IntN(255))
		must.OK(t, os.WriteFile(file, text, 0o644))
		if all, _ := sum(t, root, noon, at); all.Kept != kept-last {
			t.Fatalf("%d are left of %d, the last of which were %d", all.Kept, kept, last)
		}
		s = open(t, root, shop, noon)
		add(t, s, at, counts(last, last, last, 0))
		if all, _ := sum(t, root, noon, at); all.Kept != kept {
			t.Fatalf("%d, want %d", all.Kept, kept)
		}
		s.Close()
	}
}

// Whatever bytes are damaged, the rest is there, and nothing is counted that was not.
func TestDamage(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	root := t.TempDir()
	s := open(t, root, shop, noon)
	for i := range 100 {
		add(t, s, noon.Add(time.Duration(i)*Step), counts(1, 1, 1, 0))
	}
	s.Close()
	file := filepath.Join(root, HistoryDir, shop.File())
	whole, err := os.ReadFile(file)
	must.OK(t, err)
	first := slotAt(numberOf(noon))
	for range 300 {
		text := slices.Clone(whole)
		damaged := map[int64]bool{}
		for range r.IntN(20) {
			at := first + int64(r.IntN(100*recordBytes))
			text[at] ^= 1
			damaged[(at-first)/recordBytes] = text[at] != whole[at] || damaged[(at-first)/recordBytes]
		}
		_, _, ring, err := parse(text)
		if err != nil || len(ring) < 100-len(damaged) || len(ring) > 100 {
			t.Fatalf("%d of 100 are left after %d were damaged, %v", len(ring), len(damaged), err)
		}
	}
	for name, text := range map[string][]byte{"empty": nil, "short": whole[:1000], "header": append([]byte("x"), whole[1:]...), "other": []byte(strings.Repeat("x", int(FileBytes)))} {
		must.OK(t, os.WriteFile(file, text, 0o644))
		past, faults, err := HistoryAt(root).Read(noon, noon)
		if err != nil || len(past) != 0 || len(faults) != 1 {
			t.Errorf("%s: %+v, %v, %v", name, past, faults, err)
		}
		s := open(t, root, shop, noon)
		add(t, s, noon, counts(1, 1, 1, 0))
		s.Close()
		want := counts(1, 1, 1, 0)
		if name == "header" {
			want = counts(2, 2, 2, 0) // the records are whole
		}
		if all, _ := sum(t, root, noon, noon); all != want {
			t.Errorf("%s: %+v, want %+v", name, all, want)
		}
	}
}

// Setting the clock takes nothing away of the last 30 days, and counts nothing twice.
func TestClockSteps(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for range 12 {
		root := t.TempDir()
		s := open(t, root, shop, noon)
		at, all := noon, Counts{}
		low, high := at, at
		for range 150 {
			at = at.Add(time.Duration(r.IntN(600)) * time.Second)
			if r.IntN(20) == 0 {
				at = at.Add(time.Duration(r.IntN(200)-100) * time.Hour / 2)
			}
			if high.Sub(low) > Keeps-200*time.Hour && r.IntN(2) == 0 || at.Sub(low) > Keeps-time.Hour || high.Sub(at) > Keeps-time.Hour {
				at = noon
			}
			if at.Before(low) {
				low = at
			}
			if at.After(high) {
				high = at
			}
			c := counts(3, 2, 1, 1)
			add(t, s, at, c)
			all = all.Plus(c)
			if r.IntN(10) == 0 { // killed, or ended
				if r.IntN(2) == 0 {
					s.Close()
				}
				s = open(t, root, shop, at)
			}
		}
		if got, _ := sum(t, root, low, high); got != all {
			t.Fatalf("%+v, want %+v, from %s to %s", got, all, low, high)
		}
		s.Close()
	}
}

// A history never grows: after 80 days it has the last 30 days.
func TestBounded(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, shop, noon)
	at := noon
	for range 80 * 4 {
		at = at.Add(6 * time.Hour)
		add(t, s, at, counts(1, 1, 1, 0))
	}
	s.Close()
	all, buckets := sum(t, root, noon.Add(-time.Hour), at)
	if want := uint32(Keeps / (6 * time.Hour)); all.Judged != want || at.Sub(buckets[0].From) > Keeps {
		t.Errorf("%d quarters of days since %s, want %d", all.Judged, buckets[0].From, want)
	}
	info, err := os.Stat(filepath.Join(root, HistoryDir, shop.File()))
	if err != nil || info.Size() != FileBytes || FileBytes > 560<<10 || Most*FileBytes > 110<<20 {
		t.Errorf("%v, %v: a history has %d bytes, %d have %d MiB", info, err, FileBytes, Most, Most*FileBytes>>20)
	}
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode %s", info.Mode())
	}
}

// So many promises have a history; one that is long gone makes room, and one of today does not.
func TestMostPromises(t *testing.T) {
	root := t.TempDir()
	for i := range Most {
		m := shop
		m.Identity = strings.Repeat("x", i+1)
		s := open(t, root, m, noon)
		at := noon
		if i == 7 {
			at = noon.Add(-Keeps - time.Hour)
		}
		add(t, s, at, counts(1, 1, 1, 0))
		s.Close()
	}
	m := shop
	s := open(t, root, m, noon)
	add(t, s, noon, counts(1, 1, 1, 0))
	s.Close()
	m.Identity = strings.Repeat("x", 8)
	if _, err := os.Stat(filepath.Join(root, HistoryDir, m.File())); err == nil {
		t.Error("the history of a promise that is long gone is still there")
	}
	if _, err := HistoryAt(root).Open(m, noon); err == nil || !strings.Contains(err.Error(), "allowed: 200; remove those of promises that are gone") {
		t.Errorf("one more: %v", err)
	}
}

// What was promised may change: the history is the same, and says what is promised now.
func TestOtherTerms(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, shop, noon)
	add(t, s, noon, counts(1, 1, 1, 0))
	s.Close()
	m := shop
	m.Terms, m.Disk = "reads: 4000 IOPS", "nvme1n1"
	s = open(t, root, m, noon)
	add(t, s, noon, counts(1, 1, 0, 1))
	past, _, err := HistoryAt(root).Read(noon, noon)
	if err != nil || len(past) != 1 || past[0].Meta != m || past[0].Buckets[0].Counts != counts(2, 2, 1, 1) {
		t.Errorf("%+v, %v", past, err)
	}
	long := m
	long.Promise = strings.Repeat("x", sector)
	if _, err := HistoryAt(root).Open(long, noon); err == nil {
		t.Error("a description that does not fit was taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("isolio promise 1\n"), uint16(3), byte(1))
	f.Fuzz(func(t *testing.T, text []byte, at uint16, with byte) {
		_, _, _, _ = parse(text)
		head, err := header(shop)
		must.OK(t, err)
		whole := append(head, make([]byte, FileBytes-int64(len(head)))...)
		copy(whole[openAt:], text)
		whole[int(at)%len(whole)] ^= with
		if _, _, ring, err := parse(whole); err == nil && len(ring) > 1 {
			t.Errorf("%d records of none", len(ring))
		}
	})
}

// What a history has is there still after any bit of it was flipped or its end was lost: the file as it
// was is kept beside it.
func TestDamageTakesNothingAway(t *testing.T) {
	for name, damage := range map[string]func(text []byte) []byte{
		"a bit of the first word":     func(text []byte) []byte { text[3] ^= 1; return text },
		"a bit of the length":         func(text []byte) []byte { text[len(magic)] ^= 1; return text },
		"a bit of the checksum":       func(text []byte) []byte { text[len(magic)+5] ^= 1; return text },
		"a bit of what was promised":  func(text []byte) []byte { text[len(magic)+40] ^= 1; return text },
		"the last sectors":            func(text []byte) []byte { return text[:len(text)-2*sector] },
		"all but zeros before slots":  func(text []byte) []byte { clear(text[:sector]); return text },
		"more than there is to be":    func(text []byte) []byte { return append(text, 0) },
		"a bit of the sector's other": func(text []byte) []byte { text[sector-1] ^= 1; return text },
	} {
		root := t.TempDir()
		s := open(t, root, shop, noon)
		add(t, s, noon, counts(10, 10, 9, 1))
		must.OK(t, s.Close())
		file := filepath.Join(root, HistoryDir, shop.File())
		text, err := os.ReadFile(file)
		must.OK(t, err)
		damaged := damage(text)
		must.OK(t, os.WriteFile(file, damaged, 0o644))
		_, _, _, isDamaged := parse(damaged)
		s = open(t, root, shop, noon.Add(time.Hour))
		add(t, s, noon.Add(time.Hour), counts(1, 1, 1, 0))
		if all, _ := sum(t, root, noon, noon.Add(time.Hour)); all != counts(11, 11, 10, 1) {
			t.Errorf("%s: %+v is left", name, all)
		}
		kept, err := os.ReadFile(file + ".damaged")
		if isDamaged != nil && (err != nil || !slices.Equal(kept, damaged) || s.Aside != file+".damaged") {
			t.Errorf("%s: %d bytes were kept as %q, %v", name, len(kept), s.Aside, err)
		}
		if isDamaged == nil && (err == nil || s.Aside != "") {
			t.Errorf("%s: what is whole was kept aside as %q", name, s.Aside)
		}
		s.Close()
	}
}

// A history of a newer version is neither read nor written, nor removed to make room.
func TestNewer(t *testing.T) {
	root := t.TempDir()
	s := open(t, root, shop, noon)
	add(t, s, noon, counts(10, 10, 9, 1))
	s.Close()
	file := filepath.Join(root, HistoryDir, shop.File())
	text, err := os.ReadFile(file)
	must.OK(t, err)
	newer := append([]byte("isolio promise 2\n"), text[len(magic):]...)
	must.OK(t, os.WriteFile(file, newer, 0o644))
	if _, err := HistoryAt(root).Open(shop, noon); err == nil || !strings.Contains(err.Error(), file+": is of a newer version; update isolio") {
		t.Errorf("Open: %v", err)
	}
	past, faults, err := HistoryAt(root).Read(noon, noon)
	if err != nil || len(past) != 0 || !strings.Contains(faults[file].Error(), "newer version") {
		t.Errorf("Read: %+v, %v, %v", past, faults, err)
	}
	for i := range Most {
		m := shop
		m.Identity = strings.Repeat("y", i+1)
		_ = os.WriteFile(filepath.Join(root, HistoryDir, m.File()), newer, 0o644)
	}
	m := shop
	m.Identity = "z"
	if _, err := HistoryAt(root).Open(m, noon.Add(2*Keeps)); err == nil {
		t.Error("one more was taken: room was made of what is not known")
	}
	if now, err := os.ReadFile(file); err != nil || !slices.Equal(now, newer) {
		t.Errorf("the file is another one: %v", err)
	}
}
