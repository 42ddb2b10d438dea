// SPDX-License-Identifier: MIT

// Command kubectl-isolio is `kubectl isolio`.
package main

import (
	"isolio/deploy/node/internal/kubectl"
	"isolio/internal/cli"
)

func main() { cli.Main(kubectl.Run) }
