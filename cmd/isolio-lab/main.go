// SPDX-License-Identifier: MIT

// Command isolio-lab measures how schedulers share a disk. `isolio lab` and `isolio
// bench` execute it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"isolio/internal/lab/command"
)

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop) // a second one ends what does not end by itself
	code := command.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
