// SPDX-License-Identifier: MIT

package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"isolio/internal/host/state"
)

// published counts what is published.
type published int

func (p *published) PublishResources(context.Context, resourceslice.DriverResources) error {
	*p++
	return nil
}

// Disks that could not be published are published again half a minute later, not after the quarter
// of an hour that the library waits after many failures. What the API server drops is not.
func TestPublishingAfterFailures(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{"sys/block/sda/dev": "8:0", "sys/block/sda/size": "8", "sys/block/sda/queue/scheduler": "[kyber-fairness]", "proc/1/mountinfo": ""} {
		name := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := (state.PodSight{}).Write(root); err != nil {
		t.Fatal(err)
	}
	release, err := state.Lock(t.Context(), root, state.DaemonLock, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	d := &Driver{Root: root, Node: "n1", KubeletDir: "/var/lib/kubelet", Mounts: "/proc/1/mountinfo", Log: slog.New(slog.DiscardHandler)}
	d.Fatal = func(err error) { t.Errorf("the program ends: %v", err) }
	var to published
	look := func(what string, want published) {
		t.Helper()
		if err := d.Look(t.Context(), &to); err != nil || to != want {
			t.Errorf("%s: published %d times, want %d; %v", what, to, want, err)
		}
	}
	fails := func(err error) { d.HandleError(t.Context(), errors.Join(err, kubeletplugin.ErrRecoverable), "sync") }
	later := func() { d.offeredAt = d.offeredAt.Add(-failedEvery - time.Second) }
	look("the first look", 1)
	later()
	look("nothing failed", 1)
	d.offeredAt = time.Now()
	fails(errors.New("connection refused"))
	look("just now", 1)
	later()
	look("half a minute later", 2)
	later()
	look("it went well", 2)
	fails(fmt.Errorf("slice: %w", &resourceslice.DroppedFieldsError{}))
	look("fields were dropped", 2)
}

// A daemon may be away for as long as an update takes. What one says that is not there is no news.
func TestTheDaemonIsAway(t *testing.T) {
	d := &Driver{Root: t.TempDir()}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(state.PodSight{}.Write(d.Root))
	if why := d.sight().Unseen; why != "no isolio daemon runs" {
		t.Errorf("before any daemon: %q", why)
	}
	release, err := state.Lock(t.Context(), d.Root, state.DaemonLock, 0)
	must(err)
	if why := d.sight().Unseen; why != "" {
		t.Errorf("with a daemon: %q", why)
	}
	release()
	if why := d.sight().Unseen; why != "" {
		t.Errorf("just after it went: %q", why)
	}
	d.sawAt = d.sawAt.Add(-unseenGrace)
	if why := d.sight().Unseen; why == "" {
		t.Error("long after it went: nothing")
	}
}
