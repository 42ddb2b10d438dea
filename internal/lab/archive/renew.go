// SPDX-License-Identifier: MIT

package archive

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
	"isolio/internal/lab"
	"isolio/internal/lab/bench"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// Renewal is what measures stale results anew.
type Renewal struct {
	Tree Tree
	// Lab says how; its kernel line is the experiment's.
	Lab lab.Options
	// Only is a shell pattern of the names of experiments, "" for all.
	Only string
	// Kernel is a line to measure them on in place of their own, "" for none. From then on there
	// are such results as well, which are renewed as the others are.
	Kernel string
	// Version is the tree's, for the results.
	Version string
	// DryRun says only what would be measured.
	DryRun bool
	// Out gets a line for each experiment. Show is called with what is measured when
	// that begins, and returns what is called with its progress and its end; it may be nil.
	Out  io.Writer
	Show func(x *experiment.Experiment) (progress func(bench.Progress), end func())
}

// work is an experiment to measure, and why.
type work struct {
	x *experiment.Experiment
	// part is what of x is measured, x for all, and was the result that has the rest.
	part    *experiment.Experiment
	was     *result.Document
	why     []string
	machine result.Provenance
}

// Run measures what is stale, the quickest experiment first. One that is interrupted goes
// on with the next Run where it was.
func (r *Renewal) Run(ctx context.Context) error {
	all, err := r.work(ctx)
	if err != nil {
		return err
	}
	var left time.Duration
	for _, w := range all {
		left += r.Lab.Estimate(w.part)
	}
	if len(all) == 0 {
		fmt.Fprintln(r.Out, "results: all are up to date")
		return nil
	}
	// The estimate is corrected by how long it has taken so far.
	var took, estimated time.Duration
	for i := range all {
		w := &all[i]
		estimate := r.Lab.Estimate(w.part)
		pace := 1.0
		if estimated > 0 {
			pace = float64(took) / float64(estimated)
		}
		fmt.Fprintf(r.Out, "[%d/%d] %s: %s; %d VMs, about %s; %s left for all\n", i+1, len(all), w.x.Name, strings.Join(w.why, ", "),
			w.part.Runs(), short(scale(estimate, pace)), short(scale(left, pace)))
		if r.DryRun {
			continue
		}
		began := time.Now()
		if err := r.one(ctx, w); err != nil {
			return fmt.Errorf("results: %s: %w", w.x.Name, err)
		}
		took, estimated, left = took+time.Since(began), estimated+estimate, left-estimate
	}
	return nil
}

// one measures one experiment and writes its result.
func (r *Renewal) one(ctx context.Context, w *work) error {
	sources, err := r.Tree.Sources(w.x)
	if err != nil {
		return err
	}
	opts := r.Lab
	opts.Line, opts.Resume = w.x.Kernel, true
	progress, end := func(bench.Progress) {}, func() {}
	if r.Show != nil {
		progress, end = r.Show(w.x)
	}
	opts.Finished = filepath.Join(opts.Build, "lab")
	doc, err := w.measure(ctx, opts, r.Out, progress)
	end()
	if err != nil {
		return err
	}
	doc.Provenance = &result.Provenance{
		Version: r.Version, QEMU: w.machine.QEMU, Compiler: w.machine.Compiler, Sources: sources,
	}
	for _, line := range doc.Unmet {
		fmt.Fprintf(r.Out, "  not met: %s\n", line)
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
		if x.Kernel != r.Kernel {
			all[i] = onKernel(x, r.Kernel)
		}
	}
	return all, err
}

// isAsked says whether the pattern has an experiment's name, on any kernel or on this one.
func (r *Renewal) isAsked(x *experiment.Experiment) bool {
	name, _, _ := strings.Cut(x.Name, kernelMark)
	ofAny, _ := path.Match(r.Only, name)
	ofThis, _ := path.Match(r.Only, x.Name)
	return r.Only == "" || ofAny || ofThis
}

// work is what is stale and asked for.
func (r *Renewal) work(ctx context.Context) ([]work, error) {
	if _, err := path.Match(r.Only, ""); err != nil {
		return nil, failure.Usagef("only: %q is not a shell pattern; allowed: such as 'kf-*'", r.Only)
	}
	all, err := r.experiments()
	if err != nil {
		return nil, err
	}
	var others []string
	var stale []work
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
		w := work{x: x, part: x, was: doc}
		if w.why, err = r.Tree.Stale(x, doc); err != nil {
			return nil, err
		}
		opts := r.Lab
		opts.Line = x.Kernel
		var release string
		if release, w.machine, err = lab.Versions(ctx, opts, x); err != nil {
			return nil, fmt.Errorf("results: %s: %w", x.Name, err)
		}
		outdated := Outdated(doc, release, &w.machine)
		if len(outdated) == 0 {
			if w.part, err = r.Tree.part(x, doc); err != nil {
				return nil, err
			}
		}
		if w.why = append(w.why, outdated...); len(w.why) > 0 {
			stale = append(stale, w)
		}
	}
	if len(others) == len(all) {
		return nil, failure.Usagef("only: no experiment is called %q; allowed: %s", r.Only, strings.Join(others, ", "))
	}
	slices.SortStableFunc(stale, func(a, b work) int { return cmp.Compare(r.Lab.Estimate(a.part), r.Lab.Estimate(b.part)) })
	return stale, nil
}

func scale(d time.Duration, by float64) time.Duration { return time.Duration(float64(d) * by) }

// short rounds to what a reader wants to know.
func short(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
