// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// slowDisk serves 16 requests at a time, each in a millisecond.
var slowDisk = []string{"irqmode=2", "completion_nsec=1000000", "hw_queue_depth=16", "submit_queues=1", "size=256"}

// sumSettles is how long a change of weights takes to be in force, with what was in flight.
const sumSettles = 300 * time.Millisecond

// slice makes a group whose children have the io controller.
func slice(t *testing.T, name, weight string) string {
	t.Helper()
	group := newGroup(t, name)
	write(t, filepath.Join(group, "cgroup.subtree_control"), "+io")
	write(t, filepath.Join(group, weightFile), weight)
	return group
}

func weighted(t *testing.T, name, weight string) string {
	t.Helper()
	group := newGroup(t, name)
	write(t, filepath.Join(group, weightFile), weight)
	return group
}

// expectParts compares rates with what they are to be to each other, within 3 % of each.
func expectParts(t *testing.T, what string, rates, want []float64) {
	t.Helper()
	var total, all float64
	for i := range rates {
		total += rates[i]
		all += want[i]
	}
	for i := range rates {
		got, part := rates[i]/total, want[i]/all
		t.Logf("%s: share %d is %.4f, want %.4f", what, i, got, part)
		if math.Abs(got/part-1) > 0.03 {
			t.Errorf("%s: share %d is %.4f, want %.4f within 3 %%", what, i, got, part)
		}
	}
}

// Two class slices with a pod each that reads, as a kubelet makes them. The pods are to
// each other as their weights, whatever other pods there are that are idle.
func TestSumOfPods(t *testing.T) {
	comparesRates(t)
	loaded(t)
	d := newDisk(t, slowDisk)
	d.use(t, elevator)
	burstable, bestEffort := slice(t, "burstable", "100"), slice(t, "besteffort", "100")
	web, batch := weighted(t, "burstable/web", "300"), weighted(t, "besteffort/batch", "100")
	weighted(t, "burstable/idle", "10000")
	weighted(t, "besteffort/idle", "10000")
	late := weighted(t, "besteffort/late", "200")
	pods := []string{web, batch}
	expectParts(t, "slices of 100", readRates(t, d, pods), []float64{100, 100})

	for _, class := range []string{burstable, bestEffort} {
		write(t, filepath.Join(class, weightFile), "sum")
	}
	expectParts(t, "slices of their sums", ratesNow(t, sumSettles, d, pods), []float64{300, 100})
	for group, want := range map[string]int{burstable: 300, bestEffort: 100, web: 300} {
		if got := keyed(t, group, statFile, d)["weight"]; got != want {
			t.Errorf("io.kyber.stat of %s: weight=%d, want %d", group, got, want)
		}
	}
	// A pod that begins to read makes its class heavier.
	pods = append(pods, late)
	startFio(t, d, late, "--time_based", "--runtime=60", "--rw=randread", "--iodepth=32").untilBusy(t)
	expectParts(t, "a pod more", ratesNow(t, sumSettles, d, pods), []float64{300, 100, 200})
	// The weight of a pod that reads changes.
	write(t, filepath.Join(batch, weightFile), "400")
	expectParts(t, "a pod heavier", ratesNow(t, sumSettles, d, pods), []float64{300, 400, 200})
	// Numbers as before.
	write(t, filepath.Join(burstable, weightFile), "default 600")
	write(t, filepath.Join(bestEffort, weightFile), "default 600")
	expectParts(t, "slices of 600", ratesNow(t, sumSettles, d, pods), []float64{600, 400, 200})
}

// A slice with the sum of slices with sums, beside a service with a number.
func TestNestedSums(t *testing.T) {
	comparesRates(t)
	loaded(t)
	d := newDisk(t, slowDisk)
	d.use(t, elevator)
	pods := slice(t, "pods", "sum")
	slice(t, "pods/burstable", "sum")
	slice(t, "pods/besteffort", "sum")
	slice(t, "pods/burstable/web", "300") // a pod whose containers share what it has
	groups := []string{
		weighted(t, "pods/burstable/web/main", "100"), weighted(t, "pods/burstable/web/sidecar", "50"),
		weighted(t, "pods/besteffort/batch", "100"), weighted(t, "pods/guaranteed", "200"),
		weighted(t, "system", "200"),
	}
	weighted(t, "pods/burstable/idle", "10000")
	expectParts(t, "sums of sums", readRates(t, d, groups), []float64{200, 100, 100, 200, 200})
	if got := keyed(t, pods, statFile, d)["weight"]; got != 600 {
		t.Errorf("io.kyber.stat of pods: weight=%d, want 600", got)
	}
}

// On one disk a slice weighs what its children do, on the other it has a number.
func TestSumOnOneDisk(t *testing.T) {
	comparesRates(t)
	loaded(t)
	d, e := newDisk(t, slowDisk), newDisk(t, slowDisk)
	d.use(t, elevator)
	e.use(t, elevator)
	class := slice(t, "class", "100")
	groups := []string{weighted(t, "class/pod", "300"), weighted(t, "service", "100")}
	write(t, filepath.Join(class, weightFile), d.number+" sum")
	expectParts(t, "with the sum", readRates(t, d, groups), []float64{300, 100})
	expectParts(t, "without it", readRates(t, e, groups), []float64{100, 100})
	// The default is the sum, and one disk has a number.
	write(t, filepath.Join(class, weightFile), "sum")
	write(t, filepath.Join(class, weightFile), d.number+" 100")
	expectParts(t, "with a number of its own", ratesNow(t, sumSettles, d, groups), []float64{100, 100})
	expectParts(t, "with the default", ratesNow(t, sumSettles, e, groups), []float64{300, 100})
}

// Weights of a slice and of its children change between numbers and sums while requests
// go through, and children come and go: no request is lost, and shares are right after it.
func TestSumSwitchedUnderLoad(t *testing.T) {
	loaded(t)
	d := newDisk(t, fast)
	d.use(t, elevator)
	class := slice(t, "class", "sum")
	inner := slice(t, "class/inner", "sum")
	pod, service := weighted(t, "class/inner/pod", "300"), weighted(t, "service", "100")
	loads := []*load{
		startFio(t, d, pod, "--time_based", "--runtime=4", "--bs=4k"),
		startFio(t, d, service, "--time_based", "--runtime=4", "--bs=4k"),
	}
	untilBusy(t, d)
	weights := []string{"sum", "1", d.number + " sum", "10000", d.number + " 7", "default sum", d.number + " default"}
	for i := range 400 {
		write(t, filepath.Join([]string{class, inner, pod, service}[i%4], weightFile), weights[i%len(weights)])
		time.Sleep(5 * time.Millisecond)
		if i%50 == 0 {
			startFio(t, d, newGroup(t, "class/inner/"+string(rune('a'+i/50))), "--time_based", "--runtime=1", "--bs=4k")
		}
	}
	for _, l := range loads {
		l.wait(t)
	}
	for group, weight := range map[string]string{class: "sum", inner: "sum", pod: "300", service: "100"} {
		write(t, filepath.Join(group, weightFile), d.number+" default")
		write(t, filepath.Join(group, weightFile), weight)
	}
	for _, group := range []string{pod, service} {
		startFio(t, d, group, "--time_based", "--runtime=60").untilBusy(t)
	}
	time.Sleep(sumSettles)
	for group, want := range map[string]int{pod: 750000, service: 250000} {
		if got := keyed(t, group, statFile, d)["share_ppm"]; got < want-1 || got > want {
			t.Errorf("%s is entitled to %d millionths afterwards, want %d", group, got, want)
		}
	}
}

// As an operator has it: a rule of the daemon, or the command, gives slices the sum, and
// status tells which shares come of it.
func TestSumByCommand(t *testing.T) {
	loaded(t)
	d := newDisk(t, slowDisk)
	d.use(t, elevator)
	classes := []string{slice(t, "class-high.slice", "100"), slice(t, "class-low.slice", "100")}
	pods := []string{weighted(t, "class-high.slice/pod", "300"), weighted(t, "class-low.slice/pod", "100")}
	weighted(t, "class-low.slice/idle", "10000")
	rules := filepath.Join(t.TempDir(), "isolio.toml")
	must(t, os.WriteFile(rules, []byte("[[rule]]\nunit = \"class-high.slice\"\nweight = \"sum\"\n"), 0o644))
	succeeds(t, "daemon", "--once", "--config", rules)
	succeeds(t, "weight", "/class-low.slice", "sum")
	if _, stderr, code := isolio(t, "weight", "/class-low.slice", "sums"); code != 2 || !strings.Contains(stderr, "1..10000, sum, or default") {
		t.Errorf("a weight that is none: exit status %d, %q", code, stderr)
	}
	for _, class := range classes {
		if got := weights(t, class); !slices.Equal(got, []string{"default sum"}) {
			t.Errorf("%s: weights %q", class, got)
		}
	}
	for _, pod := range pods {
		startFio(t, d, pod, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=32").untilBusy(t)
	}
	time.Sleep(sumSettles)
	var doc status
	must(t, json.Unmarshal([]byte(succeeds(t, "status", "--json")), &doc))
	for name, want := range map[string]statusShare{
		"class-high.slice": {Weight: 300, Entitled: 0.75}, "class-high.slice/pod": {Weight: 300, Entitled: 0.75},
		"class-low.slice": {Weight: 100, Entitled: 0.25}, "class-low.slice/pod": {Weight: 100, Entitled: 0.25},
	} {
		at := slices.IndexFunc(doc.Groups, func(g statusGroup) bool { return g.Group == name })
		if at < 0 || len(doc.Groups[at].Shares) != 1 {
			t.Fatalf("%s: status tells of the cgroups %+v", name, doc.Groups)
		}
		s := doc.Groups[at].Shares[0]
		t.Logf("%s: weight %d, entitled to %.4f, got %.4f", name, s.Weight, s.Entitled, s.Actual)
		if s.Weight != want.Weight || math.Abs(s.Entitled-want.Entitled) > 0.001 {
			t.Errorf("%s: weight %d, entitled to %.4f; want %d, %.4f", name, s.Weight, s.Entitled, want.Weight, want.Entitled)
		}
		if math.Abs(s.Actual/want.Entitled-1) > 0.03 && !onDebugKernel(t) {
			t.Errorf("%s got %.4f, entitled to %.4f", name, s.Actual, s.Entitled)
		}
	}
}
