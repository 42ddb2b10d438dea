// SPDX-License-Identifier: MIT

package run

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"isolio/internal/failure"
	"isolio/internal/lab/archive"
	"isolio/internal/lab/experiment"
)

// Renewal measures old results anew.
type Renewal struct {
	Tree archive.Tree
	// Lab says how; its kernel line is the experiment's.
	Lab Options
	// Only is a shell pattern of the names of experiments, "" for all.
	Only string
	// Kernel is a line to measure them on in place of their own, "" for none. From then on there
	// are such results as well, which are renewed as the others are.
	Kernel string
	// All measures what is not old as well.
	All bool
	// Version is the tree's, for the results.
	Version string
	// Series are the names of the results whose samples of rates are kept.
	Series []string
	// DryRun says only what would be measured.
	DryRun bool
	// Out gets a line for each experiment.
	Out io.Writer
}

// work is an experiment to measure, and why.
type work struct {
	*experiment.Experiment
	why []string
}

// Run measures what is old, the quickest experiment first. A VM that would be the same as
// one that an earlier Run booted is not booted again.
func (r *Renewal) Run(ctx context.Context) error {
	all, err := r.work()
	if err != nil {
		return err
	}
	var left time.Duration
	for _, w := range all {
		left += r.Lab.Estimate(w.Experiment)
	}
	if len(all) == 0 {
		fmt.Fprintln(r.Out, "results: none is older than the code")
		return nil
	}
	// The estimate is corrected by how long it has taken so far.
	var took, estimated time.Duration
	for i, w := range all {
		estimate := r.Lab.Estimate(w.Experiment)
		pace := 1.0
		if estimated > 0 {
			pace = float64(took) / float64(estimated)
		}
		fmt.Fprintf(r.Out, "[%d/%d] %s: %s; %d VMs, at most about %s; %s left for all\n", i+1, len(all), w.Name, strings.Join(w.why, ", "),
			w.Runs(), short(scale(estimate, pace)), short(scale(left, pace)))
		if r.DryRun {
			continue
		}
		began := time.Now()
		if err := r.one(ctx, w.Experiment); err != nil {
			return fmt.Errorf("results: %s: %w", w.Name, err)
		}
		took, estimated, left = took+time.Since(began), estimated+estimate, left-estimate
	}
	return nil
}

// one measures one experiment and writes its result.
func (r *Renewal) one(ctx context.Context, x *experiment.Experiment) error {
	p, err := r.Tree.Provenance(x)
	if err != nil {
		return err
	}
	opts := r.Lab
	opts.Line, opts.Reuse, opts.Cache = x.Kernel, true, filepath.Join(opts.Build, "lab")
	p.Version = r.Version
	if p.QEMU, p.Compiler, err = Versions(ctx, opts, x); err != nil {
		return err
	}
	doc, err := Experiment(ctx, opts, x, nil)
	if err != nil {
		return err
	}
	doc.Provenance = p
	for _, line := range doc.Unmet {
		fmt.Fprintf(r.Out, "  not met: %s\n", line)
	}
	if !slices.Contains(r.Series, x.Name) {
		doc = doc.WithoutSeries()
	}
	return r.Tree.Write(doc)
}

// experiments are those of which some are asked for.
func (r *Renewal) experiments() ([]*experiment.Experiment, error) {
	if r.Kernel == "" {
		return r.Tree.Measured()
	}
	if r.Only == "" {
		return nil, failure.Usagef("kernel: no experiment is named to measure on %s; allowed: with a pattern of names", r.Kernel)
	}
	all, err := r.Tree.Experiments()
	for i, x := range all {
		all[i] = archive.OnKernel(x, r.Kernel)
	}
	return all, err
}

// isAsked says whether the pattern has an experiment's name, on any kernel or on this one.
func (r *Renewal) isAsked(x *experiment.Experiment) bool {
	name, _, _ := strings.Cut(x.Name, archive.KernelMark)
	ofAny, _ := path.Match(r.Only, name)
	ofThis, _ := path.Match(r.Only, x.Name)
	return r.Only == "" || ofAny || ofThis
}

// work is what is asked for and old.
func (r *Renewal) work() (old []work, err error) {
	if _, err := path.Match(r.Only, ""); err != nil {
		return nil, failure.Usagef("only: %q is not a shell pattern; allowed: such as 'kf-*'", r.Only)
	}
	all, err := r.experiments()
	if err != nil {
		return nil, err
	}
	var others []string
	for _, x := range all {
		if !r.isAsked(x) {
			others = append(others, x.Name)
			continue
		}
		doc, err := r.Tree.Read(x.Name)
		if err != nil {
			fmt.Fprintf(r.Out, "%v\n", err) // it is measured anew
			doc = nil
		}
		why, err := r.Tree.Old(x, doc)
		if err != nil {
			return nil, err
		}
		if why == nil && r.All {
			why = []string{"asked for"}
		}
		if why != nil {
			old = append(old, work{x, why})
		}
	}
	if len(others) == len(all) {
		return nil, failure.Usagef("only: no experiment is called %q; allowed: %s", r.Only, strings.Join(others, ", "))
	}
	slices.SortStableFunc(old, func(a, b work) int { return cmp.Compare(r.Lab.Estimate(a.Experiment), r.Lab.Estimate(b.Experiment)) })
	return old, nil
}

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// short rounds to what a reader wants to know.
func short(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
