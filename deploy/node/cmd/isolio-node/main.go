// SPDX-License-Identifier: MIT

// Command isolio-node offers a node's disks to Kubernetes.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"isolio/deploy/node/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second one ends what does not end by itself
	code := command.Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
