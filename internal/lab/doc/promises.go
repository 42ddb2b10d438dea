// SPDX-License-Identifier: MIT

package doc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/profile"
	"isolio/internal/host/rule"
	"isolio/internal/host/slo"
	"isolio/internal/host/usage"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// Sold is what an experiment promises to its containers, by name, and the plan for it. The files are
// those that `isolio sla plan` reads.
type Sold struct {
	Profile  *profile.Profile
	Promises []rule.Promise
	Plan     *slo.Plan
}

// ReadSold reads the promises of a file and the profile of their disk.
func ReadSold(promises, measured string) (*Sold, error) {
	text, err := os.ReadFile(measured)
	if err != nil {
		return nil, err
	}
	s := &Sold{}
	if s.Profile, err = profile.Decode(text); err != nil {
		return nil, fmt.Errorf("%s: %w", measured, err)
	}
	config, err := rule.Load("", promises)
	if err != nil {
		return nil, err
	}
	if len(config.Promises) == 0 {
		return nil, fmt.Errorf("%s: promises nothing; allowed: one [[promise]] or more", promises)
	}
	s.Promises = config.Promises
	s.Plan, err = slo.Make(slo.SoldDisk{Name: s.Promises[0].Device, Profile: s.Profile}, s.Promises, config.SLA)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", promises, err)
	}
	if !s.Plan.Fits {
		return nil, fmt.Errorf("%s: %s", promises, s.Plan.Problem)
	}
	return s, nil
}

// kept counts intervals of one container under one contender.
type kept struct{ judged, demanded, kept int }

func (k *kept) count(final []slo.Verdict) {
	for _, v := range final {
		k.judged++
		if v.Demanded {
			k.demanded++
		}
		if v.Kept {
			k.kept++
		}
	}
}

func (k kept) String() string { return fmt.Sprintf("%d of %d", k.kept, k.demanded) }

// outstanding is how many requests a job keeps outstanding all the time; 0 for one that pauses.
func outstanding(j experiment.Job) int {
	if j.Count("thinktime", 0) > 0 || j["rate"] != "" || j["rate_iops"] != "" {
		return 0
	}
	return j.Count("iodepth", 1) * j.Count("numjobs", 1)
}

// above is the bound of the least bucket that begins at a latency or above it.
func above(latency time.Duration) time.Duration {
	for octave := time.Duration(1024); ; octave *= 2 {
		for quarter := range time.Duration(4) {
			if under := octave + octave/4*(quarter+1); (usage.Bucket{Under: under}).Begin() >= latency {
				return under
			}
		}
	}
}

// keptOf has the account judge each step of a container's series, as the daemon judges each second. All
// contenders are judged by the same counters: what was submitted, and by Little's law the latency that so many
// outstanding requests have. The scheduler's own counters would be there for one contender alone.
func (s *Sold) keptOf(i int, r *result.Run, k *experiment.Case) (kept, error) {
	name := s.Promises[i].For.Name
	at := slices.IndexFunc(r.Containers, func(c result.Container) bool { return c.Name == name })
	of := slices.IndexFunc(k.Containers, func(c experiment.Container) bool { return c.Name == name })
	if at < 0 || of < 0 || r.Containers[at].Series == nil {
		return kept{}, fmt.Errorf("container %s has no samples in case %s", name, k.Name)
	}
	series, job := r.Containers[at].Series, k.Containers[of].Job
	if job.Writes() {
		return kept{}, fmt.Errorf("container %s writes: the samples have reads and writes in one; allowed: a job that reads", name)
	}
	held := uint64(outstanding(job))
	judge := slo.NewJudge(slo.TermsOf(s.Promises[i], s.Profile, &s.Plan.Tenants[i], s.Plan.Fits))
	reading := slo.Reading{At: time.Unix(0, 0), Active: true, Stalled: -1}
	reading.Disk.InFlight = int(held)
	reading.Service.ReadIOs = held
	reading.Sent = reading.Service.IOStat
	judge.Next(reading)
	step := time.Duration(series.StepMS) * time.Millisecond
	var all kept
	for n := range series.IOs {
		reading.At = reading.At.Add(step)
		did := cgroup.IOStat{ReadIOs: series.IOs[n], ReadBytes: series.Bytes[n]}
		reading.Service.IOStat = reading.Service.Plus(did)
		reading.Sent = reading.Service.IOStat
		total := cgroup.IOStat{}
		for _, c := range r.Containers {
			if c.Series != nil && n < len(c.Series.IOs) {
				total = total.Plus(cgroup.IOStat{ReadIOs: c.Series.IOs[n], ReadBytes: c.Series.Bytes[n]})
			}
		}
		reading.Disk.IOStat = reading.Disk.Plus(total)
		reading.Disk.Busy += step
		if did.ReadIOs > 0 {
			latency := time.Duration(float64(held) * float64(step) / float64(did.ReadIOs))
			reading.Latency.Read = reading.Latency.Read.Plus(usage.Histogram{{Under: above(latency), Count: did.ReadIOs}})
		}
		judge.Next(reading)
		all.count(judge.Settled())
	}
	all.count(judge.Close())
	return all, nil
}

// promises makes a table of in how many of the demanded seconds each promise was kept, with a row for each
// contender of each case.
func (t tables) promises() string {
	if t.b.Promises == "" || t.b.Profile == "" {
		t.p.refuse("promises", "is missing, or profile is", "both: the files that `isolio sla plan` reads")
	}
	file := func(name string) string { return filepath.Join(string(t.Tree), filepath.FromSlash(name)) }
	sold, err := ReadSold(file(t.b.Promises), file(t.b.Profile))
	if err != nil {
		t.p.refuse("promises", err.Error(), "promises that fit the profile")
	}
	all := t.sources()
	head := t.heads(all)
	for i, one := range sold.Promises {
		head = append(head, fmt.Sprintf("%s: %s", one.For.Name, strings.TrimSuffix(sold.Promises[i].Terms(), " of reads")))
	}
	rows := [][]string{head}
	for _, s := range all {
		for _, contender := range t.contendersOf(s) {
			cells := s.names(contender, s.name)
			runs := s.doc.In(s.k.Name)
			at := slices.IndexFunc(runs, func(r result.Run) bool { return r.Scheduler == contender })
			if at < 0 {
				t.p.refuse("contenders", fmt.Sprintf("%q did not run in case %s", contender, s.k.Name), "those of the case")
			}
			for n := range sold.Promises {
				k, err := sold.keptOf(n, &runs[at], s.k)
				if err != nil {
					t.p.refuse("result", err.Error(), "sample_ms = 1000, and a container for each promise")
				}
				text := k.String()
				if k.demanded == 0 {
					text = "not demanded"
				}
				cells = append(cells, text)
			}
			rows = append(rows, cells)
		}
	}
	return markdown(rows) + all[0].measured()
}
