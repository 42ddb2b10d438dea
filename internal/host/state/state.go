// SPDX-License-Identifier: MIT

// Package state is what isolio's programs tell one another in /run/isolio: which weights the daemon
// wrote last (lastapplied.go), which it raised for promises (boost.go), what a cluster gave pods
// (claims.go), which disks got no scheduler (enableerrors.go), and locks. Only root can write the
// directory. A boot empties it, as a boot resets weights.
package state
