// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The files that show what a group's requests took.
var (
	statFile    = strings.Replace(weightFile, ".weight", ".stat", 1)
	latencyFile = strings.Replace(weightFile, ".weight", ".latency", 1)
)

// keyed returns the numbers of the disk's line in a group's file.
func keyed(t *testing.T, group, file string, d *disk) map[string]int {
	t.Helper()
	values := map[string]int{}
	for line := range strings.Lines(read(t, filepath.Join(group, file))) {
		fields := strings.Fields(line)
		if fields[0] != d.number {
			continue
		}
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("%s: %q: %v", file, field, err)
			}
			values[key] = n
		}
	}
	return values
}

// quantiles are the keys of a direction's percentiles, in order.
func quantiles(letter string) []string {
	keys := []string{"p50", "p90", "p99", "p999"}
	for i, p := range keys {
		keys[i] = letter + "lat_" + p + "_usec"
	}
	return keys
}

// A null_blk that takes 5 ms and lets 2 requests in has 4 tags for the
// scheduler: a request takes 10 ms from when it has one. In an idle group there is
// nothing to tell.
func TestStatTellsLatencies(t *testing.T) {
	loaded(t)
	d := newDisk(t, slow)
	d.use(t, elevator)
	reader, idle := newGroup(t, "reader"), newGroup(t, "idle")
	startFio(t, d, reader, "--time_based", "--runtime=60", "--rw=randread", "--iodepth=16")
	untilBusy(t, d)
	time.Sleep(2 * time.Second)

	stat := keyed(t, reader, statFile, d)
	if n, done := stat["rlat_ios"], stat["rios"]; n < 300 || n > done {
		t.Errorf("rlat_ios is %d with %d reads dispatched in two seconds of 400 a second", n, done)
	}
	least := 0
	for _, key := range quantiles("r") {
		if stat[key] < least {
			t.Errorf("%s is %d, less than a lower percentile: %v", key, stat[key], stat)
		}
		least = stat[key]
	}
	if p50 := stat["rlat_p50_usec"]; p50 < 8750 || p50 > 11250 {
		t.Errorf("half of the reads take up to %d us, want about 10000", p50)
	}
	for _, key := range append(quantiles("w"), "wlat_ios") {
		if n, ok := stat[key]; !ok || n != 0 {
			t.Errorf("%s is %d in a group that only reads", key, n)
		}
	}
	for key, n := range keyed(t, idle, statFile, d) {
		if strings.Contains(key, "lat_") && n != 0 {
			t.Errorf("%s is %d in a group that does nothing", key, n)
		}
	}
}

// The percentiles forget; what io.kyber.latency counts only grows, and is all
// that was ever read or written.
func TestLatencyCounts(t *testing.T) {
	loaded(t)
	d := newDisk(t, fast)
	d.use(t, elevator)
	group := newGroup(t, "a")
	before := map[string]int{}
	for range 3 {
		startFio(t, d, group, "--number_ios=500", "--rw=randread").wait(t)
		startFio(t, d, group, "--number_ios=300", "--rw=randwrite").wait(t)
		now := keyed(t, group, latencyFile, d)
		for key, n := range before {
			if now[key] < n {
				t.Errorf("%s went from %d to %d", key, n, now[key])
			}
		}
		stat := keyed(t, group, statFile, d)
		for letter, ios := range map[string]int{"r": stat["rios"], "w": stat["wios"]} {
			if sum := sumOf(now, letter); sum != ios || sum <= sumOf(before, letter) {
				t.Errorf("%s: %d requests in the buckets, %d before, %d dispatched: %v",
					letter, sum, sumOf(before, letter), ios, now)
			}
		}
		if recent := stat["wlat_ios"]; recent < 300 || recent > stat["wios"] {
			t.Errorf("%d recent writes of %d", recent, stat["wios"])
		}
		before = now
		time.Sleep(6 * time.Second)
	}
	time.Sleep(5 * time.Second)
	stat := keyed(t, group, statFile, d)
	for _, key := range []string{"rlat_ios", "rlat_p99_usec", "wlat_ios", "wlat_p99_usec"} {
		if stat[key] != 0 {
			t.Errorf("%s is %d ten seconds after the last request", key, stat[key])
		}
	}
	if now := keyed(t, group, latencyFile, d); sumOf(now, "r") != sumOf(before, "r") {
		t.Errorf("reads in the buckets went from %v to %v without a read", before, now)
	}
	// The first one after that is recent.
	startFio(t, d, group, "--number_ios=20", "--rw=randwrite").wait(t)
	if n := keyed(t, group, statFile, d)["wlat_ios"]; n != 20 {
		t.Errorf("20 writes after ten idle seconds: %d are recent", n)
	}
}

// sumOf adds a direction's buckets.
func sumOf(counts map[string]int, letter string) int {
	sum := 0
	for key, n := range counts {
		if strings.HasPrefix(key, letter) {
			sum += n
		}
	}
	return sum
}
