// SPDX-License-Identifier: MIT

//go:build vm

package hostile

import (
	"os"

	"isolio/tests/guest"
)

// network is what a network block device is connected to: a file in memory, which this
// process serves. Each connection is a hardware queue, so that the disk may come back
// with another number of these.
type network struct {
	back        *os.File
	nbd         *guest.NBD
	connections int
}

const mostConnections = 2

// networkDisk makes a network block device, if the kernel has them; powerOn connects it.
func networkDisk() (*disk, error) {
	const name, size = "nbd0", 24 << 20
	if !exists("/sys/block/" + name) {
		return nil, nil
	}
	back, err := os.CreateTemp("/dev/shm", name)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(back.Name()); err != nil {
		return nil, err
	}
	return &disk{name: name, network: &network{back: back, connections: mostConnections}}, back.Truncate(size)
}

func (n *network) connect(name string) (err error) {
	n.nbd, err = guest.ConnectNBD(name, n.back, n.connections)
	return err
}
