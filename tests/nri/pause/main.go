// SPDX-License-Identifier: MIT

// Command pause does nothing until it is told to end. It is the only program in the
// image of the test's pods.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
}
