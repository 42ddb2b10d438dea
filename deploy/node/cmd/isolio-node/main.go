// SPDX-License-Identifier: MIT

// Command isolio-node offers a node's disks to Kubernetes.
package main

import (
	"isolio/deploy/node/internal/command"
	"isolio/internal/cli"
)

func main() { cli.Main(command.Run) }
