// SPDX-License-Identifier: MIT

package archive

import (
	"context"
	"fmt"
	"io"
	"slices"

	"isolio/internal/lab"
	"isolio/internal/lab/bench"
	"isolio/internal/lab/experiment"
	"isolio/internal/lab/result"
)

// A VM has the modules that its contender needs, and no other of the project's. In virtual time the
// same VM gives the same result. So after a change of modules alone the runs of all other contenders
// are taken from the result there is, and those are measured that load one of them.

// loading is the part of an experiment that has to do with modules: in each case, the contenders that
// load one. It expects nothing.
func loading(x *experiment.Experiment, modules []string) *experiment.Experiment {
	part := *x
	part.Cases, part.Expect = slices.Clone(x.Cases), nil
	for i := range x.Cases {
		k := &x.Cases[i]
		part.Cases[i].Schedulers = slices.DeleteFunc(slices.Clone(x.SchedulersIn(k)), func(name string) bool {
			loaded := x.ModulesIn(k, name)
			return !slices.ContainsFunc(modules, func(m string) bool { return slices.Contains(loaded, m) })
		})
	}
	return &part
}

// part is what of an experiment has to be measured: x itself for all of it.
func (t Tree) part(x *experiment.Experiment, was *result.Document) (*experiment.Experiment, error) {
	if was == nil || was.Provenance == nil {
		return x, nil
	}
	changed, err := t.changed(x, was.Provenance.Sources)
	if err != nil {
		return nil, err
	}
	modules := x.Modules()
	for _, name := range changed {
		if !slices.Contains(modules, name) {
			return x, nil
		}
	}
	return loading(x, changed), nil
}

// measure runs what of w is not as it was measured.
func (w *work) measure(ctx context.Context, opts lab.Options, out io.Writer, progress func(bench.Progress)) (*result.Document, error) {
	doc, err := lab.Run(ctx, opts, w.part, progress)
	if err != nil || w.part == w.x {
		return doc, err
	}
	// Outdated cannot tell: fio says its version where it runs.
	if doc.Fio != w.was.Fio && w.was.Fio != "" && doc.Fio != "" {
		fmt.Fprintf(out, "  fio: %s, now %s; all %d VMs are measured\n", w.was.Fio, doc.Fio, w.x.Runs())
		return lab.Run(ctx, opts, w.x, progress)
	}
	return completed(w.x, w.was, doc)
}

// completed is the result of which a part was measured now, and the rest is as it was.
func completed(x *experiment.Experiment, was, now *result.Document) (*result.Document, error) {
	isNew := func(name, scheduler string) bool {
		return slices.ContainsFunc(now.Runs, func(r result.Run) bool { return r.Case == name && r.Scheduler == scheduler })
	}
	runs := ofDocument(now)
	for _, r := range ofDocument(was) {
		if !isNew(r.Case, r.Scheduler) {
			runs = append(runs, r)
		}
	}
	doc, err := result.Merge(x, runs)
	if err != nil {
		return nil, err
	}
	// What a file has is rounded. A sum of such figures may differ in the last digit from what
	// was computed of the exact ones: the file's are right.
	for i := range doc.Runs {
		r := &doc.Runs[i]
		if isNew(r.Case, r.Scheduler) || isNew(r.Case, "none") || r.ReferenceCase != "" && isNew(r.ReferenceCase, "none") {
			continue
		}
		at := slices.IndexFunc(was.Runs, func(old result.Run) bool { return old.Case == r.Case && old.Scheduler == r.Scheduler })
		*r = was.Runs[at]
	}
	return doc, nil
}

// ofDocument are a document's runs as result.Merge takes them.
func ofDocument(d *result.Document) []result.Run {
	runs := slices.Clone(d.Runs)
	for i := range runs {
		runs[i].Kernel, runs[i].Fio = d.Kernel, d.Fio
	}
	return runs
}
