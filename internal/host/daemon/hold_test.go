// SPDX-License-Identifier: MIT

package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"isolio/internal/host/policy"
	"isolio/internal/host/state"
	"isolio/internal/must"
)

// held is promised with a weight for shop.service, which is held.
var held = strings.Replace(promised, `read = "1000 IOPS"`, "read = \"1000 IOPS\"\nmode = \"hold\"\nhold_max_factor = 3", 1) +
	"[[rule]]\nunit = \"shop.service\"\nweight = 120\n"

// heldHost is a host whose kernel shares the disk by what is in io.kyber.weight.
type heldHost struct {
	*promisedHost
	log bytes.Buffer
	// others is the weight of the others, speed what the disk serves of its 10,000 reads.
	others, speed float64
	throttledMS   int
}

func newHeldHost(t *testing.T) *heldHost {
	t.Helper()
	h := &heldHost{promisedHost: newPromisedHost(t), others: 1000, speed: 1}
	h.put("etc/isolio.toml", held)
	h.Log = slog.New(slog.NewTextHandler(&h.log, nil))
	must.OK(t, h.Reload())
	h.ledger = newLedger(h.Root, h.tree, h.Log, nil)
	h.ledger.now = func() time.Time { return h.clock }
	h.once()
	return h
}

// weight is that of shop.service on the disk. The kernel keeps the values of other disks where one is written.
func (h *heldHost) weight() int {
	h.t.Helper()
	name := filepath.Join(h.Root, "sys/fs/cgroup", shop, "io.kyber.weight")
	text, err := os.ReadFile(name)
	must.OK(h.t, err)
	n := 120
	switch word := strings.TrimSpace(string(text)); {
	case word == "8:0 default":
		h.put("sys/fs/cgroup/"+shop+"/io.kyber.weight", "default 120\n")
	case strings.HasPrefix(word, "8:0 "):
		h.put("sys/fs/cgroup/"+shop+"/io.kyber.weight", "default 120\n"+word+"\n")
		fallthrough
	default:
		v, _, err := h.tree.Weights(shop, "io.kyber.weight")
		must.OK(h.t, err)
		n = int(v.On("8:0"))
	}
	return n
}

// second is one: shop.service reads as fast as its share lets it, or nothing.
func (h *heldHost) second(asks bool) {
	h.t.Helper()
	w := float64(h.weight())
	share, reads := w/(w+h.others), 0
	if asks {
		reads = int(share * h.speed * 10000)
		h.throttledMS += 1000
	}
	h.clock = h.clock.Add(interval)
	h.reads += reads
	h.diskReads += int(10000 * h.speed)
	if asks {
		h.stalledMS += 1000
	}
	h.counters()
	for i, group := range []string{shop, shop + "/inside"} {
		n := h.reads - h.reads/2
		if i == 1 {
			n = h.reads / 2
		}
		h.put("sys/fs/cgroup/"+group+"/io.kyber.stat", fmt.Sprintf("8:0 rbytes=%d wbytes=0 rios=%d wios=0 throttled_usec=%d weight=%g share_ppm=%d\n",
			n*4096, n, h.throttledMS*1000/2, w, int(share*1e6*float64(1-i))))
		// 1,000 a second with 80 ms each are 80 outstanding: enough on any disk of these.
		h.put("sys/fs/cgroup/"+group+"/io.kyber.latency", fmt.Sprintf("8:0 r88000000=%d\n", n))
	}
	h.ledger.judge()
	at := scope{}
	for _, group := range h.ledger.takeChanged() {
		at.add(group)
	}
	if _, err := h.write(context.Background(), at); err != nil {
		h.t.Fatal(err)
	}
}

func (h *heldHost) seconds(n int, asks bool) {
	h.t.Helper()
	for range n {
		h.second(asks)
	}
}

// A weight follows a disk that has slowed, within its bound, and goes back. What the daemon does is in
// its log, in /run and in what other programs show of the cgroup.
func TestHold(t *testing.T) {
	h := newHeldHost(t)
	h.seconds(5, true)
	if w := h.weight(); w != 120 {
		t.Fatalf("weight %d on a disk as planned", w)
	}
	h.speed = 0.6
	h.seconds(10, true)
	before := h.totals()["unit shop.service"]
	h.seconds(20, true)
	after := h.totals()["unit shop.service"]
	if kept := after.Kept - before.Kept; kept != 20 {
		t.Errorf("%d of 20 s kept with weight %d, %+v", kept, h.weight(), after)
	}
	// 1,000 of 6,000 are a sixth: a weight of 200, and the margin.
	if w := h.weight(); w < 200 || w > 225 {
		t.Errorf("weight %d, want about 210", w)
	}
	all, err := state.LoadBoosts(h.Root)
	if err != nil || len(all) != 1 || all[0].Cgroup != shop || all[0].Promise != "unit shop.service" || all[0].Cause != "disk" {
		t.Errorf("kept: %+v, %v", all, err)
	}
	// Another program's view.
	m := policy.New(h.config, policy.DiskNumbers{"sda": {"8:0"}}, nil).Hold(all)
	last, err := h.marks.Get(shop)
	must.OK(t, err)
	reasons, _, err := m.Reasons(shop, h.tree.Weights, last)
	if err != nil || len(reasons) != 2 || reasons[1].State != policy.InEffect || reasons[1].Want.By != policy.ByBoost || reasons[1].Want.Base != 120 ||
		reasons[1].Want.Why != "120 by rule 1 of /etc/isolio.toml, raised for the promise to unit shop.service: the disk is slower than its profile; at most 360" {
		t.Errorf("%+v, %v", reasons, err)
		for _, g := range reasons {
			t.Logf("%+v", g.Want)
		}
	}
	// Far slower: at the bound.
	h.speed = 0.2
	h.seconds(10, true)
	if w := h.weight(); w != 360 {
		t.Errorf("weight %d, want three times 120", w)
	}
	h.speed = 1.02
	h.seconds(80, true)
	if w := h.weight(); w != 120 {
		t.Errorf("weight %d after the disk has recovered", w)
	}
	if all, err := state.LoadBoosts(h.Root); all != nil || err != nil {
		t.Errorf("kept: %+v, %v", all, err)
	}
	for _, want := range []string{"msg=hold promise=\"unit shop.service\"", "code=hold-raised cause=disk", "code=hold-lowered", "msg=weight cgroup=" + shop} {
		if !strings.Contains(h.log.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, h.log.String())
		}
	}
}

// A disk that comes again has another number, and the former one may be another disk's.
func TestHoldOfADiskThatComesAgain(t *testing.T) {
	h := newHeldHost(t)
	h.speed = 0.6
	h.seconds(20, true)
	if all := h.ledger.held(); len(all) != 1 || all[0].Disk != "8:0" {
		t.Fatalf("held: %+v", all)
	}
	h.put("sys/block/sda/dev", "8:16\n")
	h.once()
	for _, one := range h.ledger.held() {
		if one.Disk != "8:16" {
			t.Errorf("held: %+v", one)
		}
	}
	if all, err := state.LoadBoosts(h.Root); all != nil || err != nil {
		t.Errorf("kept: %+v, %v", all, err)
	}
}

// A promise without the mode changes no weight.
func TestHoldIsOff(t *testing.T) {
	h := newHeldHost(t)
	h.put("etc/isolio.toml", strings.Replace(held, "mode = \"hold\"\nhold_max_factor = 3", "", 1))
	must.OK(t, h.Reload())
	h.once()
	h.speed = 0.5
	h.seconds(30, true)
	if w := h.weight(); w != 120 || h.totals()["unit shop.service"].Missed[1] < 20 {
		t.Errorf("weight %d, %+v", w, h.totals())
	}
}

// What a daemon raised that was killed, the next one lowers; one that is stopped lowers it itself. A promise that
// is no longer held has its weight back at once.
func TestHoldOutlives(t *testing.T) {
	h := newHeldHost(t)
	h.speed = 0.6
	h.seconds(10, true)
	raised := h.weight()
	again := func() {
		t.Helper()
		found, err := state.LoadBoosts(h.Root)
		must.OK(t, err)
		h.ledger = newLedger(h.Root, h.tree, h.Log, found)
		h.ledger.now = func() time.Time { return h.clock }
		h.once()
	}
	again()
	if w := h.weight(); raised <= 120 || w != raised {
		t.Errorf("weight %d, was raised to %d", w, raised)
	}
	h.seconds(5, true)
	if got := h.totals()["unit shop.service"]; got.Kept < 4 {
		t.Errorf("%+v", got)
	}
	h.put("etc/isolio.toml", strings.Replace(held, "mode = \"hold\"\nhold_max_factor = 3", "", 1))
	must.OK(t, h.Reload())
	h.once()
	h.seconds(1, true)
	if w := h.weight(); w != 120 {
		t.Errorf("weight %d of a promise that is no longer held", w)
	}
	h.put("etc/isolio.toml", held)
	must.OK(t, h.Reload())
	h.once()
	h.seconds(10, true)
	if w := h.weight(); w <= 120 {
		t.Fatalf("weight %d", w)
	}
	h.lower(context.Background())
	if w := h.weight(); w != 120 {
		t.Errorf("weight %d after the daemon ended", w)
	}
}

// A weight that an operator writes stays, raised or not.
func TestHoldIsOverridden(t *testing.T) {
	h := newHeldHost(t)
	h.speed = 0.6
	h.seconds(10, true)
	h.put("sys/fs/cgroup/"+shop+"/io.kyber.weight", "default 120\n8:0 50\n")
	h.once()
	h.seconds(60, true)
	h.once()
	if w := h.weight(); w != 50 {
		t.Errorf("weight %d, written by hand: 50", w)
	}
	if all, err := state.LoadBoosts(h.Root); all != nil || err != nil {
		t.Errorf("kept: %+v, %v", all, err)
	}
	// The operator gives it back.
	h.put("sys/fs/cgroup/"+shop+"/io.kyber.weight", "default 120\n")
	h.once()
	h.seconds(10, true)
	if w := h.weight(); w < 200 {
		t.Errorf("weight %d after it was given back", w)
	}
}

// A tenant that does not ask loses what was raised.
func TestHoldEnds(t *testing.T) {
	h := newHeldHost(t)
	h.speed = 0.6
	h.seconds(10, true)
	h.seconds(70, false)
	if w := h.weight(); w != 120 {
		t.Errorf("weight %d of an idle tenant", w)
	}
}

// What was raised is damaged when the daemon starts: it is told, kept aside, and costs no command that
// reads it.
func TestRaisedWeightsThatCannotBeRead(t *testing.T) {
	h := newHeldHost(t)
	const damaged, file = `[{"cgroup": "a", "fac`, "run/isolio/held.json"
	h.put(file, damaged)
	ctx, end := context.WithCancel(context.Background())
	end()
	h.account(ctx)()
	if all, err := state.LoadBoosts(h.Root); err != nil || len(all) > 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if text, err := os.ReadFile(filepath.Join(h.Root, file+".damaged")); err != nil || string(text) != damaged {
		t.Errorf("%q, %v", text, err)
	}
	if got := strings.Count(h.log.String(), "held.json.damaged"); got != 1 {
		t.Errorf("told %d times:\n%s", got, h.log.String())
	}
}
