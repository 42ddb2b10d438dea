// SPDX-License-Identifier: MIT

// Package failure says which exit code an error deserves. An error that no
// one marked means that something was tried and did not work: code 1.
package failure

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Exit codes of every isolio command.
const (
	OK          = 0 // done
	Failed      = 1 // tried and failed, or an expectation was not met
	Usage       = 2 // bad input: nothing was started
	Unsupported = 3 // this machine or kernel cannot do it
	// Config is bad input of a service, EX_CONFIG of sysexits.h. A Go program that
	// crashes ends with 2, so a service manager could not tell that from Usage.
	Config = 78
)

// marked is an error with the exit code it deserves.
type marked struct {
	error
	code int
}

func (m *marked) Unwrap() error { return m.error }

// Usagef is bad input: a wrong argument, file or device. The message names
// what is wrong, where, and what is allowed, on one line.
func Usagef(format string, args ...any) error {
	return &marked{fmt.Errorf(format, args...), Usage}
}

// Unsupportedf is something that this machine or kernel cannot do. The
// message says what would be needed.
func Unsupportedf(format string, args ...any) error {
	return &marked{fmt.Errorf(format, args...), Unsupported}
}

// WithCode marks err with an exit code that another process reported.
func WithCode(err error, code int) error {
	if err == nil {
		return nil
	}
	return &marked{err, code}
}

// Code returns the exit code for err: the outermost mark wins.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if m, ok := errors.AsType[*marked](err); ok {
		return m.code
	}
	return Failed
}

// IsGone reports whether an error means that the disk or the cgroup of a kernel's file was removed:
// the file is not there, or went between its opening and its reading.
func IsGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}
