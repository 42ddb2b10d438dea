// SPDX-License-Identifier: MIT

// Command isolio gives containers their share of a disk.
package main

import (
	"isolio/internal/cli"
	"isolio/internal/host/command"
)

func main() { cli.Main(command.Run) }
