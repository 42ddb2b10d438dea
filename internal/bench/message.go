// SPDX-License-Identifier: MIT

package bench

import (
	"context"
	"encoding/json"
	"io"

	"isolio/internal/experiment"
	"isolio/internal/failure"
	"isolio/internal/result"
)

// Message is one line that Serve writes. Exactly one of the first three is set.
type Message struct {
	Progress *Progress   `json:"progress,omitempty"`
	Run      *result.Run `json:"run,omitempty"`
	Error    string      `json:"error,omitempty"`
	// Code is the exit code that Error deserves.
	Code int `json:"code,omitempty"`
}

// Serve is Run for another process to follow, such as a lab's host: it writes
// a Message a line, the last one with the run or the error. Its own error is
// that of writing.
func Serve(ctx context.Context, e Env, x *experiment.Experiment, scheduler string, w io.Writer) error {
	enc := json.NewEncoder(w)
	var writing error
	send := func(m Message) {
		if writing == nil {
			writing = enc.Encode(m)
		}
	}
	run, err := Run(ctx, e, x, scheduler, func(p Progress) { send(Message{Progress: &p}) })
	if err != nil {
		send(Message{Error: err.Error(), Code: failure.Code(err)})
	} else {
		send(Message{Run: &run})
	}
	return writing
}

// Err is the error that the message carries, with its exit code; nil if none.
func (m Message) Err() error {
	if m.Error == "" {
		return nil
	}
	return failure.WithCode(messageError(m.Error), m.Code)
}

type messageError string

func (e messageError) Error() string { return string(e) }
