// SPDX-License-Identifier: MIT

package daemon

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"isolio/internal/host/nri"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
)

// pods are what a runtime tells of them.
type pods struct {
	source *nri.Source
	stop   func()
	// socket is what the rules say of it.
	socket string
	// silent is true while the runtime does not tell, and connected while it does; at
	// the beginning neither.
	silent, connected bool
	// told is what isolio-node was told, nil for nothing yet.
	told *state.PodSight
}

// startNRI listens to the runtime that the rules name, or to none.
func (d *Daemon) startNRI(ctx context.Context) {
	socket := d.config.NRI
	if d.NoNRI {
		socket = rule.NoNRI
	}
	if d.pods.source != nil && d.pods.socket == socket {
		d.pods.source.Keep(d.config.Keeps)
		return
	}
	d.stopNRI()
	if socket == rule.NoNRI {
		// What a runtime told an earlier daemon must not hold for ever.
		d.finder.Tell(nil)
		if err := state.RemovePodReport(d.Root); err != nil {
			d.fail(noPods, state.PodReportFile, err)
		}
		return
	}
	at := socket
	if at == "" {
		at = nri.Socket
	}
	listening, stop := context.WithCancel(ctx)
	source := nri.New(d.Root, at, d.config.Keeps)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		source.Run(listening)
	}()
	d.pods = pods{source: source, socket: socket, stop: func() { stop(); <-ended }}
}

// stopNRI listens to no runtime any more. What it told holds.
func (d *Daemon) stopNRI() {
	if d.pods.source != nil {
		d.pods.stop()
	}
	d.pods = pods{}
	d.settle(noPods, nil)
	d.health.hears(false)
}

// podsChanged is ready when the runtime told something.
func (d *Daemon) podsChanged() <-chan struct{} {
	if d.pods.source == nil {
		return nil
	}
	return d.pods.source.Changed()
}

// tellSight has isolio-node know which shares it may sell: none where neither a runtime nor its files
// tell of pods that come.
func (d *Daemon) tellSight() {
	inFiles := slices.ContainsFunc(d.containers, func(c target.Container) bool { return c.InFiles && c.PodUID != "" })
	unseen := ""
	if !d.pods.connected && !inFiles {
		unseen = "no container runtime tells the isolio daemon of pods over NRI"
		if d.pods.source != nil {
			unseen += " at " + d.pods.source.Socket
		}
	}
	sight := state.PodSight{Unseen: unseen, ByRules: d.byRules}
	if d.pods.told != nil && reflect.DeepEqual(*d.pods.told, sight) {
		return
	}
	d.pods.told = &sight
	if err := sight.Write(d.Root); err != nil {
		d.pods.told = nil
		d.fail(noPods, "pod sight", err)
	}
}

// takeReport has what the runtime told count from the next look on.
func (d *Daemon) takeReport(ctx context.Context) {
	report, err := d.pods.source.Report()
	d.health.hears(err == nil)
	// Without a runtime that was there before, or that the rules name, files are all
	// that there is to be.
	quiet := report == nil && d.pods.socket == ""
	faults := map[string]string{}
	switch {
	case err == nil && !d.pods.connected:
		d.Log.InfoContext(ctx, "nri", "socket", d.pods.source.Socket, "runtime", report.Engine, "pods", len(report.Pods))
	case err != nil && quiet && !d.pods.silent:
		d.Log.InfoContext(ctx, "nri", "socket", d.pods.source.Socket, "state", err.Error()+"; the daemon reads pods from the runtime's files")
	case err != nil && !quiet:
		faults[d.pods.source.Socket] = err.Error() + "; the daemon keeps what it knows of pods, and reads new ones from the runtime's files"
	}
	d.pods.connected, d.pods.silent = err == nil, err != nil
	if report != nil {
		d.finder.Tell(report)
		if err := report.Write(d.Root); err != nil {
			faults[state.PodReportFile] = strings.TrimSuffix(err.Error(), "\n") + "; other commands cannot see pods' annotations"
		}
	}
	d.settle(noPods, faults)
}
