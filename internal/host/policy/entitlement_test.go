// SPDX-License-Identifier: MIT

package policy

import (
	"fmt"
	"math"
	"testing"
	"time"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/weight"
)

const disk = "259:0"

// sample has groups with so many bytes read of the disk, in requests of 4 KiB.
func sample(at time.Duration, groups []string, kib map[string]uint64) IOSample {
	s := IOSample{At: time.Unix(0, 0).Add(at), Groups: append([]string{RootGroup}, groups...), Stats: map[string]map[string]cgroup.IOStat{}}
	for group, n := range kib {
		s.Stats[group] = map[string]cgroup.IOStat{disk: {ReadBytes: n << 10, ReadIOs: n / 4}}
	}
	return s
}

// parts writes "entitled/actual" in percent for each group.
func parts(all []Entitlement) map[string]string {
	m := map[string]string{}
	for _, p := range all {
		m[p.Group] = fmt.Sprintf("%.0f/%.0f", 100*p.Entitled, 100*p.Actual)
		if !p.Active && p.Entitled != 0 {
			m[p.Group] += " but idle"
		}
	}
	return m
}

func TestParts(t *testing.T) {
	groups := []string{"a", "b", "idle", "slice", "slice/c", "slice/d"}
	weights := func(group string) weight.Value {
		return map[string]weight.Value{"a": 300, "b": 100, "idle": 1000, "slice": 200, "slice/c": 300, "slice/d": 100}[group]
	}
	before := map[string]uint64{RootGroup: 1000, "a": 500, "idle": 400, "slice": 100, "slice/c": 100}
	for _, tt := range []struct {
		name  string
		after map[string]uint64
		want  map[string]string
	}{
		{"among active siblings", map[string]uint64{RootGroup: 2000, "a": 1000, "b": 200, "idle": 400, "slice": 400, "slice/c": 300, "slice/d": 100},
			map[string]string{RootGroup: "100/100", "a": "50/50", "b": "17/20", "idle": "0/0", "slice": "33/30", "slice/c": "25/20", "slice/d": "8/10"}},
		{"one sibling sleeps", map[string]uint64{RootGroup: 1500, "a": 800, "idle": 400, "slice": 300, "slice/c": 300},
			map[string]string{RootGroup: "100/100", "a": "60/60", "b": "0/0", "idle": "0/0", "slice": "40/40", "slice/c": "40/40", "slice/d": "0/0"}},
		{"the root's own tasks are one more child", map[string]uint64{RootGroup: 2000, "a": 1000, "idle": 400, "slice": 100, "slice/c": 100},
			map[string]string{RootGroup: "100/100", "a": "75/50", "b": "0/0", "idle": "0/0", "slice": "0/0", "slice/c": "0/0", "slice/d": "0/0"}},
		{"a little more in the root than below is its way of counting", map[string]uint64{RootGroup: 1520, "a": 1000, "idle": 400, "slice": 100, "slice/c": 100},
			map[string]string{RootGroup: "100/100", "a": "100/96", "b": "0/0", "idle": "0/0", "slice": "0/0", "slice/c": "0/0", "slice/d": "0/0"}},
		{"nobody", before, map[string]string{RootGroup: "0/0", "a": "0/0", "b": "0/0", "idle": "0/0", "slice": "0/0", "slice/c": "0/0", "slice/d": "0/0"}},
	} {
		for _, unit := range []Unit{Bytes, IOs} {
			all := Entitlements(sample(0, groups, before), sample(time.Second, groups, tt.after), disk, unit, weights)
			got := parts(all)
			for group, want := range tt.want {
				if got[group] != want {
					t.Errorf("%s, %s: %s has %s, want %s", tt.name, unit, group, got[group], want)
				}
			}
		}
	}
}

// A group of the sum weighs what its active children do, and its own tasks.
func TestSums(t *testing.T) {
	groups := []string{"pods", "pods/burstable", "pods/burstable/web", "pods/burstable/idle", "pods/besteffort", "pods/besteffort/batch", "service"}
	weights := map[string]weight.Value{
		"pods": weight.Sum, "pods/burstable": weight.Sum, "pods/burstable/web": 300, "pods/burstable/idle": 10000,
		"pods/besteffort": weight.Sum, "pods/besteffort/batch": 100, "service": 400,
	}
	with := func(more map[string]weight.Value) func(string) weight.Value {
		return func(group string) weight.Value {
			if n, ok := more[group]; ok {
				return n
			}
			return weights[group]
		}
	}
	used := func(web, batch, own, service uint64) map[string]uint64 {
		return map[string]uint64{
			RootGroup: web + batch + own + service, "service": service, "pods": web + batch + own, "pods/burstable": web,
			"pods/burstable/web": web, "pods/besteffort": batch + own, "pods/besteffort/batch": batch,
		}
	}
	for _, tt := range []struct {
		name    string
		more    map[string]weight.Value
		used    map[string]uint64
		want    map[string]string
		numbers map[string]int
	}{
		{"flat among pods", nil, used(100, 100, 0, 200),
			map[string]string{"service": "50/50", "pods": "50/50", "pods/burstable": "38/25", "pods/burstable/web": "38/25", "pods/besteffort/batch": "12/25", "pods/burstable/idle": "0/0"},
			map[string]int{"pods": 400, "pods/burstable": 300, "pods/besteffort": 100, "service": 400}},
		{"as 300 : 100", nil, used(100, 100, 0, 0), map[string]string{"pods": "100/100", "pods/burstable/web": "75/50", "pods/besteffort/batch": "25/50", "service": "0/0"},
			map[string]int{"pods": 400, "service": 400}},
		{"one class sleeps", nil, used(0, 100, 0, 100), map[string]string{"service": "80/50", "pods": "20/50", "pods/besteffort/batch": "20/50", "pods/burstable": "0/0"},
			map[string]int{"pods": 100, "pods/burstable": 100}},
		{"own tasks are one more", nil, used(0, 100, 100, 0), map[string]string{"pods/besteffort": "100/100", "pods/besteffort/batch": "50/50"},
			map[string]int{"pods": 200, "pods/besteffort": 200}},
		{"a leaf", map[string]weight.Value{"service": weight.Sum}, used(100, 0, 0, 100), map[string]string{"service": "25/50", "pods": "75/50"},
			map[string]int{"service": 100}},
		{"numbers for the classes", map[string]weight.Value{"pods/burstable": 100, "pods/besteffort": 100}, used(100, 100, 0, 0),
			map[string]string{"pods/burstable/web": "50/50", "pods/besteffort/batch": "50/50"}, map[string]int{"pods": 200}},
	} {
		all := Entitlements(sample(0, groups, nil), sample(time.Second, groups, tt.used), disk, Bytes, with(tt.more))
		got := parts(all)
		for group, want := range tt.want {
			if got[group] != want {
				t.Errorf("%s: %s has %s, want %s", tt.name, group, got[group], want)
			}
		}
		for _, p := range all {
			if want, ok := tt.numbers[p.Group]; ok && p.Weight != want {
				t.Errorf("%s: %s weighs %d, want %d", tt.name, p.Group, p.Weight, want)
			}
		}
	}
}

// Rates are per second, and a group made anew under an old name starts at 0.
func TestRates(t *testing.T) {
	groups := []string{"a", "b"}
	all := Entitlements(sample(0, groups, map[string]uint64{RootGroup: 100, "a": 100}),
		sample(2*time.Second, groups, map[string]uint64{RootGroup: 500, "a": 40, "b": 360}), disk, Bytes, func(string) weight.Value { return 100 })
	for i, want := range []float64{400 << 10, 40 << 10, 360 << 10} {
		if got := all[i].ReadBytes * 2; math.Abs(got-want) > 1 {
			t.Errorf("%s: %.0f bytes in two seconds, want %.0f", all[i].Group, got, want)
		}
		if all[i].ReadIOs*4096 != all[i].ReadBytes || all[i].WriteBytes != 0 {
			t.Errorf("%+v", all[i])
		}
	}
}
