// SPDX-License-Identifier: MIT

package lock

import (
	"context"
	"testing"
	"time"
)

func TestTake(t *testing.T) {
	root := t.TempDir()
	if held, known := Held(root, Disks); held || !known {
		t.Errorf("before: held %v, known %v", held, known)
	}
	release, err := Take(context.Background(), root, Disks, 0)
	if err != nil {
		t.Fatal(err)
	}
	if held, known := Held(root, Disks); !held || !known {
		t.Errorf("held %v, known %v", held, known)
	}
	if _, err := Take(context.Background(), root, Disks, 2*pause); err == nil {
		t.Error("taken twice")
	}
	if other, err := Take(context.Background(), root, Daemon, 0); err != nil {
		t.Error(err)
	} else {
		other()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Take(ctx, root, Disks, time.Hour); err == nil {
		t.Error("waited for, though interrupted")
	}
	time.AfterFunc(3*pause, release)
	again, err := Take(context.Background(), root, Disks, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	again()
	if held, _ := Held(root, Disks); held {
		t.Error("held after it was given back")
	}
}
