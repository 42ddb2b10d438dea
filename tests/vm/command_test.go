// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"isolio/internal/host/view"
	"isolio/internal/host/weight"
	"isolio/internal/lab/vm"
)

// isolio runs the command, which Command run takes along, and returns what it
// printed and its exit status.
func isolio(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.Command("isolio", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	} else if ok {
		code = exit.ExitCode()
	}
	return out.String(), errs.String(), code
}

// succeeds runs the command, which must.
func succeeds(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, code := isolio(t, args...)
	if code != 0 {
		t.Fatalf("isolio %s: exit status %d: %s", strings.Join(args, " "), code, stderr)
	}
	return stdout
}

// What an operator does: enable a disk, weigh two containers, see who gets
// what, and have everything as it was, under load.
func TestCommand(t *testing.T) {
	watchLog(t)
	if moduleLoaded(t) {
		must(t, unloadModule())
	}
	d := newDisk(t, []string{"irqmode=2", "completion_nsec=1000000", "hw_queue_depth=16", "submit_queues=1", "size=256"})
	a, b := newGroup(t, "command-a"), newGroup(t, "command-b")
	_, before := d.schedulers(t)
	requests := read(t, d.queue("nr_requests"))

	if _, stderr, code := isolio(t, "weight", "command-a", "300"); code != 3 || !strings.Contains(stderr, "no disk shares by weight") {
		t.Errorf("a weight that would do nothing: exit status %d, %q", code, stderr)
	}
	if _, stderr, code := isolio(t, "enable", d.name); code != 3 || !strings.Contains(stderr, "there is no module kyber-fairness-iosched") {
		t.Errorf("a module that is not installed: exit status %d, %q", code, stderr)
	}
	module := filepath.Join(vm.ModuleDir, moduleFile)
	if got, want := succeeds(t, "enable", d.name, "--module", module), d.name+": scheduler "+elevator+", was "+before+"\n"; got != want {
		t.Errorf("enable prints %q, want %q", got, want)
	}
	if _, active := d.schedulers(t); active != elevator {
		t.Fatalf("scheduler is %s", active)
	}
	succeeds(t, "weight", a, "300")
	if got := weights(t, a); !slices.Equal(got, []string{"default 300"}) {
		t.Errorf("weights are %q", got)
	}
	for _, group := range []string{a, b} {
		startFio(t, d, group, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=32")
	}
	for _, group := range []string{a, b} {
		for readBytes(t, group, d) < 64*4096 { // twice what it keeps waiting
			time.Sleep(10 * time.Millisecond)
		}
	}
	checkStatus(t, d)

	if got, want := succeeds(t, "disable", "/dev/"+d.name), d.name+": scheduler "+before+", was "+elevator+"\n"; got != want {
		t.Errorf("disable prints %q, want %q", got, want)
	}
	if _, active := d.schedulers(t); active != before || read(t, d.queue("nr_requests")) != requests {
		t.Errorf("after disable: scheduler %s, nr_requests %s; before enable: %s, %s", active, read(t, d.queue("nr_requests")), before, requests)
	}
	if moduleLoaded(t) {
		t.Error("after disable, the module is still loaded")
	}
	untilBusy(t, d) // nothing that was queued is stuck
}

// A disk that comes while enable --follow runs gets the scheduler, and what is chosen for it later
// stays.
func TestEnableFollows(t *testing.T) {
	watchLog(t)
	loaded(t)
	cmd := exec.Command("isolio", "enable", "--all", "--follow")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	t.Cleanup(func() { succeeds(t, "disable", "--all") })
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	time.Sleep(time.Second) // it has looked by then
	d := newDisk(t, []string{"size=256"})
	for range 700 {
		if _, active := d.schedulers(t); active == elevator {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, active := d.schedulers(t); active != elevator {
		t.Errorf("after seven seconds the scheduler is %s:\n%s", active, out.String())
	}
	d.use(t, "none")
	time.Sleep(7 * time.Second)
	if _, active := d.schedulers(t); active != "none" {
		t.Errorf("none was chosen, and the scheduler is %s", active)
	}
	must(t, cmd.Process.Signal(unix.SIGTERM))
	err := cmd.Wait()
	ended = true
	if text := out.String(); err != nil || strings.Count(text, d.name+": scheduler "+elevator) != 1 {
		t.Errorf("it ended with %v, and printed:\n%s", err, text)
	}
}

// A disk of a real driver has its scheduler and its number of requests again after disable, and
// takes another scheduler in their place, which may not have as many.
func TestEnableOnRealDisks(t *testing.T) {
	wanted := strings.Split(os.Getenv("ISOLIO_DISKS"), ",")
	if wanted[0] == "" {
		t.Skip("takes real drivers' disks: make vm T=drivers")
	}
	watchLog(t)
	loaded(t)
	disks := realDisks(t, wanted)
	for _, kind := range wanted {
		if strings.HasSuffix(kind, "-zoned") {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			d := disks[kind][0]
			t.Cleanup(func() { d.use(t, "none") })
			d.use(t, "mq-deadline")
			usual, err := strconv.Atoi(strings.TrimSpace(read(t, d.queue("nr_requests"))))
			must(t, err)
			requests := strconv.Itoa(max(4, usual*3/4)) // more than the driver has tags, where usual is twice these
			write(t, d.queue("nr_requests"), requests)
			enabled := d.name + ": scheduler " + elevator + ", was mq-deadline\n"
			for _, to := range []string{"none", "mq-deadline"} {
				if got := succeeds(t, "enable", d.name); got != enabled {
					t.Errorf("enable prints %q, want %q", got, enabled)
				}
				args := []string{"disable", d.name}
				if to != "mq-deadline" {
					args = append(args, "--scheduler", to)
				}
				succeeds(t, args...)
				if _, active := d.schedulers(t); active != to {
					t.Errorf("%s: scheduler is %s", strings.Join(args, " "), active)
				}
				if to == "none" {
					d.use(t, "mq-deadline")
					write(t, d.queue("nr_requests"), requests)
				}
			}
			if got := strings.TrimSpace(read(t, d.queue("nr_requests"))); got != requests {
				t.Errorf("nr_requests is %s, was %s", got, requests)
			}
		})
	}
}

// checkStatus compares what status tells of the two with what they were given.
func checkStatus(t *testing.T, d *disk) {
	t.Helper()
	var doc view.Status
	must(t, json.Unmarshal([]byte(succeeds(t, "status", "--json")), &doc))
	at := slices.IndexFunc(doc.Disks, func(x view.Disk) bool { return x.Name == d.name })
	if at < 0 || !slices.Equal(doc.Disks[at].WeightsBy, []weight.Mechanism{weight.Kyber}) || doc.Disks[at].MajMin != d.number || doc.Disks[at].ShareBy != "time" {
		t.Fatalf("status tells of the disks %+v", doc.Disks)
	}
	for name, entitled := range map[string]float64{"command-a": 0.75, "command-b": 0.25} {
		at := slices.IndexFunc(doc.Groups, func(g view.Group) bool { return g.Group == name })
		if at < 0 || len(doc.Groups[at].Shares) != 1 {
			t.Fatalf("status tells of the cgroups %+v", doc.Groups)
		}
		s := doc.Groups[at].Shares[0]
		if s.Disk != d.name || math.Abs(s.Entitled-entitled) > 0.001 || s.IOPS <= 0 {
			t.Errorf("%s: %+v; want to be entitled to %.2f of %s", name, s, entitled, d.name)
		}
		if math.Abs(s.Actual-entitled) > 0.05 && !onDebugKernel(t) {
			t.Errorf("%s got %.3f, entitled to %.2f", name, s.Actual, entitled)
		}
		for _, w := range doc.Groups[at].Weights {
			if w.File != weightFile || len(w.Inert) > 0 || !slices.Equal(w.ActsOn, []string{d.name}) {
				t.Errorf("%s: %+v", name, w)
			}
		}
	}
}
