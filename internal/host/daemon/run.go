// SPDX-License-Identifier: MIT

package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	notify "github.com/coreos/go-systemd/v22/daemon"
	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/machine"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
)

// A runtime that makes a cgroup writes to it many times, so the daemon waits a
// little after something happened; and where something happens all the time, it
// looks once in a while. What a runtime tells of a pod is acted on at once: its
// program starts within milliseconds, and the runtime is no tenant.
const (
	settle    = 100 * time.Millisecond
	apart     = time.Second
	podsApart = 20 * time.Millisecond
)

// disksEvery is how often the daemon looks whether other disks have the
// scheduler, of which inotify tells nothing: that takes no look at any cgroup.
const disksEvery = 5 * time.Second

// Run keeps weights until ctx ends. It tells systemd, if that started it.
func (d *Daemon) Run(ctx context.Context) error {
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	unlock, err := d.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	d.startWatching()
	defer d.stopWatching()
	ctxAccount, end := context.WithCancel(ctx)
	wait := d.account(ctxAccount)
	defer func() {
		end()
		wait()
		d.lower(context.WithoutCancel(ctx))
	}()
	d.serve(ctx)
	defer d.stopServing()
	d.startNRI(ctx)
	defer d.stopNRI()
	if err := d.pass(ctx, scope{all: true}); err != nil {
		return err
	}
	tell(notify.SdNotifyReady)
	defer tell(notify.SdNotifyStopping)
	return d.loop(ctx, reload)
}

// startWatching has a watcher if there is none. The kernel gives each user so
// many, and other programs may have them all: then the daemon looks at everything
// from time to time.
func (d *Daemon) startWatching() {
	if d.watcher != nil {
		return
	}
	watch, err := newWatcher()
	if err != nil {
		d.settle(notWatched, map[string]string{"watcher": err.Error() + "; everything is looked at every " + d.Every.String() + " instead; raise fs.inotify.max_user_instances"})
		return
	}
	d.settle(notWatched, nil)
	d.watcher = watch
}

// newWatcher is fsnotify's; tests have it fail.
var newWatcher = fsnotify.NewWatcher

func (d *Daemon) stopWatching() {
	if d.watcher != nil {
		d.watcher.Close()
	}
}

// events are the watcher's, and none without one.
func (d *Daemon) events() (chan fsnotify.Event, chan error) {
	if d.watcher == nil {
		return nil, nil
	}
	return d.watcher.Events, d.watcher.Errors
}

func (d *Daemon) loop(ctx context.Context, reload <-chan os.Signal) error {
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
	var due time.Time
	wait := func(pause, apart time.Duration) {
		at := time.Now().Add(max(pause, apart-time.Since(looked)))
		if !waits || at.Before(due) {
			waits, due = true, at
			soon.Reset(time.Until(at))
		}
	}
	for {
		d.health.turns()
		events, failed := d.events()
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			d.reload(ctx)
			happened.all = true
		case event := <-events:
			if event.Has(fsnotify.Remove) {
				// The kernel keeps a watch on a cgroup that is gone, and one of the same
				// name that comes has none. A file has none to remove.
				_ = d.watcher.Remove(event.Name)
			}
			if d.matters(event, &happened) {
				wait(settle, apart)
			}
			continue
		case err := <-failed:
			if !errors.Is(err, fsnotify.ErrEventOverflow) {
				d.watcher.Close()
				d.watcher = nil
				d.startWatching()
			}
			// A tenant that creates cgroups without end makes more events than fit. The
			// daemon must not examine everything without a pause then.
			happened.all = true
			wait(settle, apart)
			continue
		case <-d.podsChanged():
			d.takeReport(ctx)
			happened.moved = true
			wait(0, podsApart)
			continue
		case <-d.heldChanged():
			for _, group := range d.ledger.takeChanged() {
				happened.add(group)
			}
			wait(0, podsApart)
			continue
		case <-alive:
			tell(notify.SdNotifyWatchdog)
			continue
		case <-soon.C:
		case <-disks.C:
			switch {
			case d.otherDisks():
				happened.all = true
			case d.otherClaims():
				happened.moved = true
			default:
				continue
			}
		case <-every.C:
			d.startWatching()
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
		if scope := target.ScopeOf(group); scope != "" {
			at.add(scope)
		}
		return true
	}
	// The other files of a cgroup are all there from its beginning.
	if event.Has(fsnotify.Create) {
		at.add(group) // it may have the name of one that is known
	} else if event.Has(fsnotify.Remove) {
		d.swept = false
	} else {
		return false
	}
	at.moved = true
	return true
}

// otherDisks reports whether other disks have the scheduler than before.
func (d *Daemon) otherDisks() bool {
	disks, err := machine.SharingDisks(block.System{Root: d.Root}, d.config.Rules)
	return err == nil && !maps.EqualFunc(disks, d.disks, slices.Equal)
}

// givenNow is the file of what a cluster gave pods, nil if it is not there.
func (d *Daemon) givenNow() os.FileInfo {
	info, err := os.Stat(filepath.Join("/", d.Root, state.ClaimsFile))
	if err != nil {
		return nil
	}
	return info
}

// otherClaims reports whether a cluster gave pods something other than before. It does so
// before a pod runs, of which the runtime tells; this is for what comes later.
func (d *Daemon) otherClaims() bool {
	now := d.givenNow()
	if now == nil || d.given == nil {
		return now != nil || d.given != nil
	}
	return !os.SameFile(now, d.given) || !now.ModTime().Equal(d.given.ModTime())
}

// pass looks at what is in the scope, and writes what is to be written.
func (d *Daemon) pass(ctx context.Context, at scope) error {
	_, err := d.write(ctx, at)
	d.tellSight()
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
		if err := d.watcher.Add(dir); err != nil && !failure.IsGone(err) {
			d.settle(notWatched, map[string]string{"watches": err.Error() + "; some cgroups are looked at every " + d.Every.String() + " only; raise fs.inotify.max_user_watches"})
			return added
		}
		added++
	}
	d.settle(notWatched, nil)
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
		d.Log.InfoContext(ctx, "reload", "rules", len(d.config.Rules), "file", d.RuleFile, "files", len(d.config.Files))
		d.serve(ctx)
		d.startNRI(ctx)
	}
	tell(notify.SdNotifyReady)
}

// tell tells systemd. Where systemd is not there, it does nothing.
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

// lockWait is how long another process may hold the lock: a command that asks
// whether a daemon runs holds it for a moment.
const lockWait = 500 * time.Millisecond

// lock keeps a second daemon away: two with other rules would write in turns.
func (d *Daemon) lock(ctx context.Context) (unlock func(), err error) {
	unlock, err = state.Lock(ctx, d.Root, state.DaemonLock, lockWait)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: another isolio daemon runs; stop it first", err)
	}
	if err != nil {
		d.Log.Warn("lock", "warning", err.Error()+"; two daemons at a time would not be noticed")
		return func() {}, nil
	}
	return unlock, nil
}
