// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"isolio/internal/daemon"
)

// startDaemon runs a daemon for this machine until the test ends or stop is
// called, as a kill would end it: it takes nothing back.
func startDaemon(t *testing.T, every time.Duration) (stop func()) {
	t.Helper()
	d := &daemon.Daemon{RuleFile: filepath.Join(t.TempDir(), "isolio.toml"), Every: every, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if err := d.Open(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop = func() {
		if ctx.Err() != nil {
			return
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the daemon ended: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// untilWeights waits until a group's weight file holds just these lines.
func untilWeights(t *testing.T, group string, want ...string) {
	t.Helper()
	for range 600 {
		if slices.Equal(weights(t, group), want) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%s: weights %q, want %q", group, weights(t, group), want)
}

// The kernel's own files: what is written to io.weight is seen, in groups that
// were there and in those that come, long before everything is looked at again.
// What the daemon knows outlives it, and the module.
func TestDaemonFollows(t *testing.T) {
	loaded(t)
	before := newGroup(t, "before")
	write(t, filepath.Join(before, "io.weight"), "300")
	stop := startDaemon(t, time.Hour)
	untilWeights(t, before, "default 300")
	write(t, filepath.Join(before, "io.weight"), "350")
	untilWeights(t, before, "default 350")

	after, byHand := newGroup(t, "after"), newGroup(t, "byhand")
	write(t, filepath.Join(after, "io.weight"), "50")
	write(t, filepath.Join(byHand, "io.weight"), "60")
	untilWeights(t, after, "default 50")
	untilWeights(t, byHand, "default 60")
	write(t, filepath.Join(byHand, weightFile), "70")

	// A unit that starts again has a group of the same name.
	must(t, removeGroup(after))
	must(t, os.Mkdir(after, 0o755))
	write(t, filepath.Join(after, "io.weight"), "55")
	untilWeights(t, after, "default 55")
	write(t, filepath.Join(after, "io.weight"), "50")
	untilWeights(t, after, "default 50")
	stop()

	write(t, filepath.Join(before, "io.weight"), "100")
	stop = startDaemon(t, time.Hour)
	untilWeights(t, before, "default 100")
	untilWeights(t, after, "default 50")
	untilWeights(t, byHand, "default 70")
	stop()
}
