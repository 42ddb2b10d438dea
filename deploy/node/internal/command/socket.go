// SPDX-License-Identifier: MIT

package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"isolio/deploy/node/internal/disk"
)

// registrations is the directory below kubelet's where plugins put their sockets for it to
// find, and plugins the one with a directory for each plugin.
const (
	registrations = "plugins_registry"
	plugins       = "plugins"
)

// idLength is the length of the random part of a socket's path, of five bits each.
const idLength = 8

// longestSocket is how long the kernel lets the path of a Unix socket be, without the 0 at its
// end, and longestKubelet how long that of kubelet's directory may be. Its longest is that of
// registration. A longer directory would have the library take a hash in place of the driver's
// name, so that sweep could not tell whose socket it is.
const (
	longestSocket  = 107
	longestKubelet = longestSocket - len("/"+registrations+"/"+disk.Driver+"--reg.sock") - idLength
)

// sweep removes the sockets of earlier processes of this program that ended without doing
// so, as by SIGKILL or a power cut. Kubelet connects to each socket that it finds, and after
// each failure waits twice as long with the next try, by the socket's path. So a program
// that was away for a minute and came back with the same path would be without claims for
// up to another minute. Each process has a path of its own, then, and the old ones go.
//
// One that another process still listens on stays.
func sweep(ctx context.Context, kubelet string) error {
	for _, pattern := range []string{
		filepath.Join(kubelet, registrations, disk.Driver+"-*reg.sock"),
		filepath.Join(kubelet, plugins, disk.Driver, "dra*.sock"),
	} {
		sockets, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range sockets {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
			if err == nil {
				conn.Close()
				continue
			}
			if !errors.Is(err, syscall.ECONNREFUSED) {
				continue // it went away just now, or is none
			}
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("the socket of an earlier process: %w", err)
			}
		}
	}
	return nil
}
