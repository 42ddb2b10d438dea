// SPDX-License-Identifier: MIT

// Command isolio gives containers their share of a disk.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"isolio/internal/host/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends what does not end by itself
	code := command.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
