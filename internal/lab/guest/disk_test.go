// SPDX-License-Identifier: MIT

package guest

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
	"isolio/internal/plan"
)

func TestMovedBytes(t *testing.T) {
	for text, want := range map[string]string{
		"5 1 80 7 2 0 16 9 0 8 8 0 0 0 0 0 0\n": "",
		"5 1 80 7 2 0\n":                        "sys/block/nullb0/stat: 6 numbers, want 7 or more",
		"5 1 80 7 2 0 many\n":                   `sys/block/nullb0/stat: "many" is not a number`,
	} {
		s := diskTree(t, map[string]string{"sys/block/nullb0/stat": text})
		got, err := findDisk(t, s, "nullb0").movedBytes()
		switch {
		case want == "" && (err != nil || got != (80+16)*512):
			t.Errorf("%q: %d bytes, %v", text, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestSetScheduler(t *testing.T) {
	d := findDisk(t, diskTree(t, nil), "nullb0")
	if steps, err := d.setScheduler("bfq"); err != nil || len(steps) != 0 {
		t.Errorf("bfq is active: setScheduler = %v, %v", steps, err)
	}
	steps, err := d.setScheduler("mq-deadline")
	if err != nil || len(steps) != 1 || steps[0].Value != "mq-deadline" || steps[0].Undo != "bfq" {
		t.Fatalf("setScheduler = %+v, %v", steps, err)
	}
	must.OK(t, plan.On(plan.OS{}).Apply(steps))
	if got, _ := os.ReadFile(d.path("queue/scheduler")); string(got) != "mq-deadline\n" {
		t.Errorf("queue/scheduler holds %q", got)
	}
}

func TestNrRequestsComesBack(t *testing.T) {
	d := findDisk(t, diskTree(t, nil), "nullb0")
	keep, err := d.keepNrRequests()
	must.OK(t, err)
	a := plan.On(plan.OS{})
	must.OK(t, a.Apply([]plan.Step{keep, d.setNrRequests(256)}))
	if n, err := d.readInt(nrRequests); err != nil || n != 256 {
		t.Errorf("nr_requests = %d, %v; want 256", n, err)
	}
	must.OK(t, a.Undo())
	if n, err := d.readInt(nrRequests); err != nil || n != 64 {
		t.Errorf("after Undo nr_requests = %d, %v; want 64", n, err)
	}
}

func TestTunableComesBackWhereItWas(t *testing.T) {
	d := findDisk(t, diskTree(t, map[string]string{"sys/block/nullb0/queue/iosched/low_latency": "1\n"}), "nullb0")
	active, err := d.setTunable("bfq", "low_latency", "0")
	if err != nil || active.Value != "0" || active.Undo != "1" || active.Name != "queue/iosched/low_latency" {
		t.Errorf("bfq is active: setTunable = %+v, %v", active, err)
	}
	later, err := d.setTunable("mq-deadline", "fifo_batch", "1")
	if err != nil || later.Value != "1" || later.Undo != "" {
		t.Errorf("mq-deadline is not active: setTunable = %+v, %v", later, err)
	}
}

func TestSetTunableExplains(t *testing.T) {
	d := findDisk(t, diskTree(t, map[string]string{"sys/block/nullb0/queue/iosched/low_latency": "1\n", "sys/block/nullb0/queue/iosched/back_seek_max": "1\n"}), "nullb0")
	const missing = "scheduler bfq has no tunable latency; allowed: back_seek_max, low_latency"
	if _, err := d.setTunable("bfq", "latency", "0"); err == nil || err.Error() != missing || failure.Code(err) != failure.Usage {
		t.Errorf("setTunable = %v, want %s", err, missing)
	}
	s, err := d.setTunable("kyber", "read_lat_nsec", "0")
	must.OK(t, err)
	err = s.Explain(syscall.ERANGE)
	if failure.Code(err) != failure.Usage || !strings.HasPrefix(err.Error(), `scheduler kyber refuses "0" for its tunable read_lat_nsec: `) {
		t.Errorf("a value that is out of range: %v", err)
	}
	if err = s.Explain(syscall.EIO); !errors.Is(err, syscall.EIO) || failure.Code(err) == failure.Usage {
		t.Errorf("another error: %v", err)
	}
}

func TestSetSchedulerExplains(t *testing.T) {
	d := findDisk(t, diskTree(t, nil), "nullb0")
	steps, err := d.setScheduler("kyber-fairness")
	must.OK(t, err)
	err = steps[0].Explain(syscall.EINVAL)
	want := "device nullb0: scheduler kyber-fairness is not there (available: none, mq-deadline, bfq); " +
		"load it with `modprobe kyber-fairness-iosched`, or `modprobe bfq` for bfq: invalid argument"
	if err.Error() != want || failure.Code(err) != failure.Unsupported {
		t.Errorf("Explain:\n got %v\nwant %s", err, want)
	}
	if steps, err = d.setScheduler("none"); err != nil {
		t.Fatal(err)
	}
	if err = steps[0].Explain(syscall.EBUSY); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a scheduler that is there: Explain = %v", err)
	}
}

// What a tunable shows is not always what it takes.
func TestInForce(t *testing.T) {
	for shown, want := range map[string]string{
		"10": "10", "bytes [iops] time": "iops", "auto rbps=3 riops=4": "auto", "user rbps=3 riops=4": "rbps=3 riops=4",
	} {
		if got := inForce(shown); got != want {
			t.Errorf("%q is set by %q, want %q", shown, got, want)
		}
	}
}
