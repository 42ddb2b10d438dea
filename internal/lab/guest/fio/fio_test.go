// SPDX-License-Identifier: MIT

package fio

import (
	"bytes"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
	"isolio/internal/must"
)

func TestArgs(t *testing.T) {
	j := Job{
		Name: "w1000", Filename: "/dev/nullb0", OffsetBytes: 1 << 30, SizeBytes: 1 << 29,
		Ramp: 500 * time.Millisecond, Runtime: 2 * time.Second, Seed: 3,
		Prerun:  "read go <go",
		Options: experiment.Job{"rw": "randread", "bs": "4k", "iodepth": "32", "size": "1g", "offset": "0"},
	}
	want := strings.Fields(`--name=w1000 --filename=/dev/nullb0 --offset=1073741824 --size=536870912 --time_based
		--ramp_time=500000us --runtime=2000000us --randrepeat=0 --randseed=3 --norandommap=1 --lat_percentiles=1 --clat_percentiles=0
		--percentile_list=10:30:50:70:90:95:99:99.9:99.99 --unified_rw_reporting=both --group_reporting --disk_util=0 --eta=never --output-format=json
		--output=out.json --bs=4k --iodepth=32 --rw=randread`)
	want = append(want, "--exec_prerun=read go <go", "--readonly")
	got := j.Args("out.json")
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("Args:\n got %q\nwant %q", got, want)
	}
}

// A job that ends by itself is counted as a whole, and not repeated.
func TestArgsOfAJobThatEnds(t *testing.T) {
	j := Job{Ramp: time.Second, Runtime: 2 * time.Second, Options: experiment.Job{"rw": "randread", "number_ios": "100"}}
	args := strings.Join(j.Args("o"), " ")
	for what, want := range map[string]bool{"--time_based": false, "--ramp_time": false, "--number_ios=100": true, "--runtime=2000000us": true} {
		if strings.Contains(args, what) != want {
			t.Errorf("%s in %s: want %t", what, args, want)
		}
	}
}

// An engine's own options mean nothing before it.
func TestArgsOfAnExternalEngineComeAfterIt(t *testing.T) {
	j := Job{Engines: "/engines", Options: experiment.Job{"bs": "4k", "deep_sleep_ppm": "1", "ioengine": "aps"}}
	got := strings.Join(j.Args("o"), " ")
	if want := "--output=o --ioengine=external:/engines/fio-aps.so --bs=4k --deep_sleep_ppm=1"; !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestArgsOfAWritingJobAreNotReadonly(t *testing.T) {
	j := Job{Options: experiment.Job{"rw": "randrw"}}
	for _, arg := range j.Args("o") {
		if arg == "--readonly" || strings.HasPrefix(arg, "--exec_prerun") {
			t.Errorf("unwanted %s", arg)
		}
	}
}

func decode(t *testing.T, file string) (*Output, error) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	must.OK(t, err)
	return Decode(text)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }

// The fixtures are fio 3.33's own output; the figures were taken from them by
// hand: rates are io_bytes and the completed requests, lat_ns.N, over runtime; latencies in us.
func TestDecodeMixed(t *testing.T) {
	o, err := decode(t, "mixed.json")
	must.OK(t, err)
	if o.Version != "fio-3.33" || o.Job != "w1000" || o.UserPct != 9.0 || o.SystemPct != 45.571429 {
		t.Errorf("%+v", o)
	}
	if !near(o.Read.BytesPS, 159080448/0.701) || !near(o.Read.IOPS, 38837/0.701) {
		t.Errorf("read %g bytes/s, %g IOPS", o.Read.BytesPS, o.Read.IOPS)
	}
	want := result.Latency{
		Mean: 78.903345334, P10: 22.4, P30: 27.008, P50: 34.048, P70: 45.824, P90: 67.072, P95: 84.48,
		P99: 419.84, P999: 4816.896, P9999: 84410.368, Max: 84234.865,
	}
	if got := o.Write.Lat; got != want {
		t.Errorf("write latency\n got %+v\nwant %+v", got, want)
	}
	// Between that of the reads, 226.304, and that of the writes.
	if o.Both.Lat.P99 != 313.344 || o.Both.Lat.Max != 84440.734 || o.Both.Requests != 77556 {
		t.Errorf("reads and writes together: %+v", o.Both)
	}
}

func TestDecodeReadOnlyHasNoWrites(t *testing.T) {
	o, err := decode(t, "read.json")
	must.OK(t, err)
	if o.Write != nil || o.Both != nil || o.Read == nil || o.Read.Lat.P9999 != 2605.056 {
		t.Errorf("read %+v, write %+v", o.Read, o.Write)
	}
}

// A writer with fsync after every fourth request. fio gives these calls no time of their
// own to divide their number by: it is the writes'.
func TestDecodeSync(t *testing.T) {
	o, err := decode(t, "sync.json")
	must.OK(t, err)
	want := result.Latency{
		Mean: 256.258128817, P10: 166.912, P30: 185.344, P50: 207.872, P70: 240.64, P90: 403.456, P95: 544.768,
		P99: 872.448, P999: 1400.832, P9999: 1794.048, Max: 1801.477,
	}
	if o.Sync == nil || o.Sync.Lat != want || o.Sync.Requests != 1048 || !near(o.Sync.IOPS, 1048/0.301) || o.Sync.BytesPS != 0 {
		t.Errorf("fsyncs %+v, want 1048 in 301 ms, %+v", o.Sync, want)
	}
	if o.Both != nil || !near(o.Write.IOPS, 4192/0.301) {
		t.Errorf("writes %+v, both %+v", o.Write, o.Both)
	}
	if mixed, err := decode(t, "mixed.json"); err != nil || mixed.Sync != nil {
		t.Errorf("without fsync: %+v, %v", mixed.Sync, err)
	}
}

func TestDecodeFailures(t *testing.T) {
	if _, err := decode(t, "failed.json"); err == nil ||
		!strings.Contains(err.Error(), "errno 21") || !strings.Contains(err.Error(), "Is a directory") {
		t.Errorf("failed job: %v", err)
	}
	good, err := os.ReadFile("testdata/read.json")
	must.OK(t, err)
	mixed, err := os.ReadFile("testdata/mixed.json")
	must.OK(t, err)
	tests := []struct{ name, text, want string }{
		{"empty", "", "not JSON"},
		{"only a complaint", "fio: engine nosuch not loadable\n", "engine nosuch not loadable"},
		{"cut off", string(good[:len(good)/2]), "not JSON"},
		{"no job", `{"fio version": "fio-3.33", "jobs": []}`, "0 jobs"},
		{"percentile of both missing", strings.Replace(string(mixed), `"99.000000" : 313344,`, "", 1), "reads and writes together: output has no latency percentile 99"},
		{"percentile missing", strings.Replace(string(good), `"99.900000"`, `"98.000000"`, 1), "no latency percentile 99.9"},
	}
	for _, tt := range tests {
		if _, err := Decode([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q in it", tt.name, err, tt.want)
		}
	}
}

// Other versions of fio add members and complaints, and write percentiles
// with another number of decimals.
func TestDecodeIsLenient(t *testing.T) {
	text, err := os.ReadFile("testdata/read.json")
	must.OK(t, err)
	text = bytes.Replace(text, []byte(`"99.900000"`), []byte(`"99.90"`), 1)
	text = bytes.Replace(text, []byte(`"jobs"`), []byte(`"news": {"prios": [1, "x"]}, "jobs"`), 1)
	o, err := Decode(append([]byte("fio: a note\n"), text...))
	if err != nil || o.Read.Lat.P999 != 2179.072 {
		t.Errorf("%+v, %v", o, err)
	}
}

// A fio that was stopped in its ramp issued requests but measured none.
func TestDecodeStoppedInItsRamp(t *testing.T) {
	text := `fio: terminating on signal 2
{"fio version": "fio-3.33", "jobs": [{"jobname": "a", "error": 0,
"read": {"io_bytes": 4096, "total_ios": 33, "runtime": 10, "lat_ns": {"N": 0, "mean": 0, "max": 0}}}]}`
	o, err := Decode([]byte(text))
	if err != nil || o.Job != "a" || o.Read != nil || o.Write != nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// Several jobs of one fio share its options, and have a name, a part of the
// disk, a seed and a prerun command each.
func TestArgsOfMembers(t *testing.T) {
	j := Job{
		Name: "many", Filename: "/dev/x", OffsetBytes: 1 << 20, SizeBytes: 10_000, Options: experiment.Job{"rw": "randread", "numjobs": "2"},
		Members: []Member{{Name: "many-0000", Seed: 7, Prerun: "p"}, {Name: "many-0001", Seed: 8, Prerun: "q"}},
	}
	args := j.Args("out.json")
	line := strings.Join(args, " ")
	const want = " --readonly --invalidate=0 --name=many-0000 --offset=1048576 --randseed=7 --exec_prerun=p --name=many-0001 --offset=1052672 --randseed=8 --exec_prerun=q"
	if !strings.HasSuffix(line, want) || strings.Contains(line, "--name=many ") || !strings.Contains(line, " --size=4096 ") {
		t.Errorf("args %s", line)
	}
	if j.Processes() != 4 {
		t.Errorf("%d processes, want 4", j.Processes())
	}
}
