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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := command.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
