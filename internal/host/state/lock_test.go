// SPDX-License-Identifier: MIT

package state

import (
	"context"
	"testing"
	"time"

	"isolio/internal/must"
)

func TestTake(t *testing.T) {
	root := t.TempDir()
	if held, known := Locked(root, DisksLock); held || !known {
		t.Errorf("before: held %v, known %v", held, known)
	}
	release, err := Lock(context.Background(), root, DisksLock, 0)
	must.OK(t, err)
	if held, known := Locked(root, DisksLock); !held || !known {
		t.Errorf("held %v, known %v", held, known)
	}
	if _, err := Lock(context.Background(), root, DisksLock, 2*lockPause); err == nil {
		t.Error("taken twice")
	}
	if other, err := Lock(context.Background(), root, DaemonLock, 0); err != nil {
		t.Error(err)
	} else {
		other()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Lock(ctx, root, DisksLock, time.Hour); err == nil {
		t.Error("waited for, though interrupted")
	}
	time.AfterFunc(3*lockPause, release)
	again, err := Lock(context.Background(), root, DisksLock, time.Minute)
	must.OK(t, err)
	again()
	if held, _ := Locked(root, DisksLock); held {
		t.Error("held after it was given back")
	}
}
