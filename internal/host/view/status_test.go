// SPDX-License-Identifier: MIT

package view

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"isolio/internal/host/weight"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// tree has a disk of that scheduler and two groups, a of weight 300.
func tree(t *testing.T, scheduler string) string {
	t.Helper()
	root := t.TempDir()
	testtree.Write(t, root, map[string]string{
		"sys/block/sda/dev":                "8:0\n",
		"sys/block/sda/size":               "1000\n",
		"sys/block/sda/queue/scheduler":    "none [" + scheduler + "]\n",
		"sys/fs/cgroup/cgroup.controllers": "io\n",
		"sys/fs/cgroup/a/io.bfq.weight":    "default 300\n",
		"sys/fs/cgroup/a/io.weight":        "default 100\n",
		"sys/fs/cgroup/b/io.bfq.weight":    "default 100\n",
	})
	return root
}

func stat(bytes int) string { return fmt.Sprintf("8:0 rbytes=%d wbytes=0 rios=1 wios=0\n", bytes) }

// A cgroup that is active between two samples is entitled to a share by its weight, in
// the file that the disk's scheduler reads.
func TestShares(t *testing.T) {
	root := tree(t, "bfq")
	used := func(a, b int) {
		testtree.Write(t, root, map[string]string{"sys/fs/cgroup/io.stat": stat(a + b), "sys/fs/cgroup/a/io.stat": stat(a), "sys/fs/cgroup/b/io.stat": stat(b)})
	}
	used(0, 0)
	d, err := ReadStatus(context.Background(), StatusOptions{Root: root, Interval: time.Second, wait: func(context.Context, time.Duration) error {
		used(6<<20, 4<<20)
		return nil
	}})
	if err != nil || len(d.Groups) != 2 {
		t.Fatalf("%+v, %v", d, err)
	}
	for i, want := range []Share{{Weight: 300, Entitled: 0.75, Actual: 0.6}, {Weight: 100, Entitled: 0.25, Actual: 0.4}} {
		got := d.Groups[i].Shares[0]
		if got.Weight != want.Weight || math.Abs(got.Entitled-want.Entitled) > 1e-9 || math.Abs(got.Actual-want.Actual) > 1e-9 || got.BytesPS <= 0 {
			t.Errorf("%s: %+v, want %+v", d.Groups[i].Name, got, want)
		}
	}
	if w := d.Groups[0].Weights; len(w) != 1 || w[0].File != "io.bfq.weight" || len(w[0].ActsOn) != 1 || len(w[0].Inert) != 0 {
		t.Errorf("%+v", w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := ReadStatus(ctx, StatusOptions{Root: root, Interval: time.Hour}); err == nil {
		t.Error("a cancelled look has no error")
	}
}

// Every weight that does nothing has a reason and a remedy.
func TestInert(t *testing.T) {
	for _, tt := range []struct {
		what, scheduler string
		more            map[string]string
		want            string // "" for one that acts
	}{
		{"bfq reads it", "bfq", nil, ""},
		{"no scheduler", "none", nil, "no disk shares by bfq; isolio enable sda"},
		{"another reads another file", "kyber-fairness", nil, "no disk shares by bfq, and kyber-fairness reads io.kyber.weight; isolio weight a 300, or have `isolio daemon` do it"},
		{"carried over", "kyber-fairness", map[string]string{"sys/fs/cgroup/a/io.kyber.weight": "default 300\n"}, ""},
		{"alone", "bfq", map[string]string{"sys/fs/cgroup/a/io.bfq.weight": "default 100\n", "sys/fs/cgroup/b/c/io.bfq.weight": "default 300\n"},
			"a weight is compared with those of siblings, and it has no sibling in b; isolio weight b 300"},
		{"a disk's", "none", map[string]string{"sys/fs/cgroup/a/io.bfq.weight": "default 100\n8:0 50\n"}, "the scheduler none knows no weights; isolio enable sda"},
	} {
		root := tree(t, tt.scheduler)
		testtree.Write(t, root, tt.more)
		d, err := ReadStatus(context.Background(), StatusOptions{Root: root})
		must.OK(t, err)
		var got []string
		for _, g := range d.Groups {
			for _, w := range g.Weights {
				for _, i := range w.Inert {
					got = append(got, i.Why+"; "+i.Remedy)
				}
			}
		}
		if strings.Join(got, "|") != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

// A slice of the sum weighs what its active children do, so its only child's weight is
// compared where the slice's is. The scheduler's own number is shown where it has one.
func TestSums(t *testing.T) {
	root := tree(t, "kyber-fairness")
	testtree.Write(t, root, map[string]string{
		"sys/fs/cgroup/burstable/io.kyber.weight":        "default sum\n",
		"sys/fs/cgroup/burstable/web/io.kyber.weight":    "default 300\n",
		"sys/fs/cgroup/besteffort/io.kyber.weight":       "default 100\n8:0 sum\n",
		"sys/fs/cgroup/besteffort/batch/io.kyber.weight": "default 100\n",
		"sys/fs/cgroup/besteffort/idle/io.kyber.weight":  "default 9000\n",
	})
	used := func(web, batch int) {
		for name, n := range map[string]int{"": web + batch, "burstable/": web, "burstable/web/": web, "besteffort/": batch, "besteffort/batch/": batch, "besteffort/idle/": 0} {
			testtree.Write(t, root, map[string]string{"sys/fs/cgroup/" + name + "io.stat": stat(n)})
		}
	}
	read := func(o StatusOptions) *Status {
		t.Helper()
		used(0, 0)
		o.Root, o.Interval = root, time.Second
		o.wait = func(context.Context, time.Duration) error {
			used(6<<20, 4<<20)
			return nil
		}
		d, err := ReadStatus(context.Background(), o)
		must.OK(t, err)
		return d
	}
	shares := map[string]Share{}
	for _, g := range read(StatusOptions{}).Groups {
		for _, s := range g.Shares {
			shares[g.Name] = s
		}
		for _, w := range g.Weights {
			if w.File == "io.kyber.weight" && len(w.Inert) != 0 {
				t.Errorf("%s: %+v", g.Name, w.Inert)
			}
			if g.Name == "burstable" && (w.Default != weight.Sum || w.Means != "what its active children weigh together") {
				t.Errorf("%s: %s means %q", g.Name, w.Default, w.Means)
			}
		}
	}
	for name, want := range map[string]Share{
		"burstable": {Weight: 300, Entitled: 0.75}, "burstable/web": {Weight: 300, Entitled: 0.75},
		"besteffort": {Weight: 100, Entitled: 0.25}, "besteffort/batch": {Weight: 100, Entitled: 0.25},
	} {
		if got := shares[name]; got.Weight != want.Weight || math.Abs(got.Entitled-want.Entitled) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	testtree.Write(t, root, map[string]string{"sys/fs/cgroup/burstable/io.kyber.stat": "8:0 rbytes=0 weight=450 share_ppm=0\n"})
	if got := read(StatusOptions{Only: []string{"burstable"}}).Groups[0].Shares[0].Weight; got != 450 {
		t.Errorf("the scheduler says 450, shown is %d", got)
	}
	x, err := Explain(context.Background(), StatusOptions{Root: root, Only: []string{"burstable/web"}})
	must.OK(t, err)
	const parent = "it shares what its parent burstable gets, whose weight is sum: what its active children weigh together"
	if !slices.ContainsFunc(x.Reasons, func(r Reason) bool { return r.Code == LimitParent && r.Weight == weight.Sum && r.Text == parent }) {
		t.Errorf("%+v", x.Reasons)
	}
	if slices.ContainsFunc(x.Reasons, func(r Reason) bool { return r.Code == NoSiblings }) {
		t.Errorf("no siblings, below a sum: %+v", x.Reasons)
	}
	// With a number for its parent, web is compared with no other.
	testtree.Write(t, root, map[string]string{"sys/fs/cgroup/burstable/io.kyber.weight": "default 300\n"})
	if x, err = Explain(context.Background(), StatusOptions{Root: root, Only: []string{"burstable/web"}}); err != nil ||
		!slices.ContainsFunc(x.Reasons, func(r Reason) bool { return r.Code == NoSiblings && r.On == "burstable" }) {
		t.Errorf("%+v, %v", x, err)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 256060514304: "238 GiB", 4000787030016: "3.6 TiB"} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %q, want %q", n, got, want)
		}
	}
}
