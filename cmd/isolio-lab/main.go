// SPDX-License-Identifier: MIT

// Command isolio-lab measures how schedulers share a disk. `isolio lab` and `isolio
// bench` execute it.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"isolio/internal/cli"
	"isolio/internal/lab/command"
)

func main() {
	ends := []os.Signal{syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		ends = append(ends, syscall.SIGHUP)
	}
	cli.Main(command.Run, ends...)
}
