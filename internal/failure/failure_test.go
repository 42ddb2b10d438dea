// SPDX-License-Identifier: MIT

package failure

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

func TestCode(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, OK},
		{"unmarked", errors.New("boom"), Failed},
		{"usage", Usagef("no such device"), Usage},
		{"unsupported", Unsupportedf("no cgroup v2"), Unsupported},
		{"wrapped", fmt.Errorf("bench: %w", Usagef("no such device")), Usage},
		{"outermost wins", Unsupportedf("load: %w", Usagef("inner")), Unsupported},
		{"from another process", WithCode(errors.New("guest: no bfq"), Unsupported), Unsupported},
		{"no error has no code", WithCode(nil, Unsupported), OK},
	}
	for _, tt := range tests {
		if got := Code(tt.err); got != tt.want {
			t.Errorf("%s: Code = %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestMarkKeepsTheCause(t *testing.T) {
	err := Usagef("open x: %w", fs.ErrNotExist)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("errors.Is(%v, fs.ErrNotExist) = false", err)
	}
	if err.Error() != "open x: file does not exist" {
		t.Errorf("message = %q", err)
	}
}
