// SPDX-License-Identifier: MIT

// Command isolio gives containers their share of a disk, and proves it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"isolio/internal/cli"
	"isolio/internal/lab"
)

func main() {
	if lab.InGuest() {
		os.Exit(lab.GuestMain())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
