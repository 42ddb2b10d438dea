// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"path/filepath"
	"testing"
	"time"
)

// A cgroup that is owed goes before the others, also with what is left of a slice: on a disk of
// several hardware queues it has one, and the others wait for places or for a clock that is
// paced. It has its disk of its own, and they all that it leaves.
func TestOwedGoesFirstOnSeveralQueues(t *testing.T) {
	loaded(t)
	d := newDisk(t, []string{"irqmode=2", "completion_nsec=1000000", "hw_queue_depth=32", "submit_queues=1", "poll_queues=1", "size=1024"})
	d.use(t, elevator)
	web, batch := newGroup(t, "web"), newGroup(t, "batch")
	write(t, filepath.Join(web, weightFile), "800")
	write(t, filepath.Join(batch, weightFile), "200")
	startFio(t, d, web, "--time_based", "--runtime=60", "--rw=randread", "--iodepth=4").untilBusy(t)
	startFio(t, d, batch, "--time_based", "--runtime=60", "--rw=randread", "--iodepth=128").untilBusy(t)
	time.Sleep(time.Second)
	const seconds = 2
	webBefore, batchBefore := readBytes(t, web, d), readBytes(t, batch, d)
	time.Sleep(seconds * time.Second)
	webIOPS := (readBytes(t, web, d) - webBefore) / 4096 / seconds
	batchIOPS := (readBytes(t, batch, d) - batchBefore) / 4096 / seconds
	t.Logf("web has %d reads a second, batch %d", webIOPS, batchIOPS)
	// Alone on 80 % of the disk web has 4 reads each 1.25 ms, 3200 a second. The disk does 32000.
	if webIOPS < 2700 || batchIOPS < 16000 {
		d.logState(t)
		t.Errorf("web has %d reads a second and batch %d, want 2700 and 16000 at least", webIOPS, batchIOPS)
	}
}
