// SPDX-License-Identifier: MIT

package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	notify "github.com/coreos/go-systemd/v22/daemon"
	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"isolio/internal/host/block"
	"isolio/internal/host/container"
	"isolio/internal/host/weight"
)

// A runtime that makes a cgroup writes to it many times, so the daemon waits a
// little after something happened; and where something happens all the time, it
// looks once in a while.
const (
	settle = 100 * time.Millisecond
	apart  = time.Second
)

// disksEvery is how often the daemon looks whether other disks have the
// scheduler, of which inotify tells nothing: that takes no look at any cgroup.
const disksEvery = 5 * time.Second

// Run keeps weights until ctx ends. It tells systemd, if that started it.
func (d *Daemon) Run(ctx context.Context) error {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("inotify: %w", err)
	}
	defer watch.Close()
	d.serve(ctx)
	defer d.stopServing()
	d.watcher = watch
	if err := d.pass(ctx, scope{all: true}); err != nil {
		return err
	}
	tell(notify.SdNotifyReady)
	defer tell(notify.SdNotifyStopping)
	return d.loop(ctx, watch, reload)
}

func (d *Daemon) loop(ctx context.Context, watch *fsnotify.Watcher, reload <-chan os.Signal) error {
	soon := time.NewTimer(settle)
	soon.Stop()
	every := time.NewTicker(d.Every)
	defer every.Stop()
	disks := time.NewTicker(disksEvery)
	defer disks.Stop()
	alive, stop := watchdog()
	defer stop()
	var happened scope
	waits, looked := false, time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			d.reload(ctx)
			happened.all = true
		case event := <-watch.Events:
			if event.Has(fsnotify.Remove) {
				// The kernel keeps a watch on a cgroup that is gone, and one of the same
				// name that comes has none. A file has none to remove.
				_ = watch.Remove(event.Name)
			}
			if d.matters(event, &happened) && !waits {
				soon.Reset(max(settle, apart-time.Since(looked)))
				waits = true
			}
			continue
		case err := <-watch.Errors:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				return fmt.Errorf("inotify: %w", err)
			}
			happened.all = true
		case <-alive:
			tell(notify.SdNotifyWatchdog)
			continue
		case <-soon.C:
		case <-disks.C:
			if !d.otherDisks() {
				continue
			}
			happened.all = true
		case <-every.C:
			d.serve(ctx)
			happened.all = true
		}
		at := happened
		happened, waits, looked = scope{}, false, time.Now()
		if err := d.pass(ctx, at); err != nil {
			// It is tried again: a tree that changes may be half there.
			d.Log.ErrorContext(ctx, "look", "error", err.Error())
		}
	}
}

// matters reports whether an event may change what is asked for, and adds where
// to the scope: cgroups come and go, and these files are written.
func (d *Daemon) matters(event fsnotify.Event, at *scope) bool {
	group, err := filepath.Rel(d.tree.Root, event.Name)
	if err != nil {
		return false // not below what is watched
	}
	switch filepath.Base(event.Name) {
	case weight.BFQ.File(), weight.IOCost.File():
		group = filepath.Dir(group)
		at.add(group)
		if scope := container.ScopeOf(group); scope != "" {
			at.add(scope)
		}
		return true
	}
	// The other files of a cgroup are all there from its beginning.
	if event.Has(fsnotify.Create) {
		at.add(group) // it may have the name of one that is known
	} else if !event.Has(fsnotify.Remove) {
		return false
	}
	at.moved = true
	return true
}

// otherDisks reports whether other disks have the scheduler than before.
func (d *Daemon) otherDisks() bool {
	disks, err := kyberDisks(block.System{Root: d.Root})
	return err == nil && !maps.Equal(disks, d.disks)
}

// pass looks at what is in the scope, and writes what is to be written.
func (d *Daemon) pass(ctx context.Context, at scope) error {
	_, err := d.write(ctx, at)
	tell("STATUS=" + d.Status())
	return err
}

// watch has inotify tell of the cgroups that are there, and returns how many of
// them it did not tell of before.
func (d *Daemon) watch(groups []string) int {
	if d.watcher == nil {
		return 0
	}
	stale := map[string]bool{}
	for _, dir := range d.watcher.WatchList() {
		stale[dir] = true
	}
	added := 0
	for _, group := range append([]string{""}, groups...) {
		dir := d.tree.Path(group)
		if stale[dir] {
			delete(stale, dir)
			continue
		}
		if err := d.watcher.Add(dir); err != nil && !gone(err) {
			d.Log.Warn("inotify", "cgroup", group, "error", err.Error(), "instead", "looked at every "+d.Every.String())
			return added
		}
		added++
	}
	for dir := range stale {
		_ = d.watcher.Remove(dir) // it may have gone by itself
	}
	return added
}

func (d *Daemon) reload(ctx context.Context) {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		tell(notify.SdNotifyReloading + "\nMONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10))
	}
	if err := d.Reload(); err != nil {
		d.Log.ErrorContext(ctx, "reload", "error", err.Error())
	} else {
		d.Log.InfoContext(ctx, "reload", "rules", len(d.config.Rules), "file", d.RuleFile)
		d.serve(ctx)
	}
	tell(notify.SdNotifyReady)
}

// tell tells systemd. Without it, or with it gone, there is nobody to tell.
func tell(state string) { _, _ = notify.SdNotify(false, state) }

// watchdog ticks twice in the time after which systemd takes the daemon for
// stuck; never, if there is no such time.
func watchdog() (<-chan time.Time, func()) {
	limit, err := notify.SdWatchdogEnabled(false)
	if err != nil || limit == 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(limit / 2)
	return ticker.C, ticker.Stop
}

// serve serves metrics where the rules say, and no more where they said before.
// An address that cannot be had, such as one that is taken, must not keep
// containers from their weights: it is logged, and tried again.
func (d *Daemon) serve(ctx context.Context) {
	address := d.config.Metrics
	if address == d.serving {
		return
	}
	d.stopServing()
	if address == "" {
		return
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		d.Log.ErrorContext(ctx, "metrics", "error", err.Error(), "instead", "tried again every "+d.Every.String())
		return
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", NewMetrics(d.Root, d.tree, d.finder).Handler())
	d.server, d.serving = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, address
	go func(server *http.Server) {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.Log.Error("metrics", "error", err.Error())
		}
	}(d.server)
}

func (d *Daemon) stopServing() {
	if d.server != nil {
		d.server.Close()
	}
	d.server, d.serving = nil, ""
}
