// SPDX-License-Identifier: MIT

package vm

import (
	"fmt"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// treeUnit has a distribution's systemd start the payload as the last of its
// services. It runs this program, which reports to the host as init does elsewhere.
const treeUnit = `[Unit]
Description=The lab's payload
After=multi-user.target

[Service]
Type=exec
Environment=` + EngineEnv + `=` + engineTree + `
ExecStart=` + guestInit + `
`

// addTreeUnit adds the unit to the distribution.
func addTreeUnit(a *archive) error {
	const dir, name = guestTree + "/etc/systemd/system", "isolio-lab.service"
	if err := a.addBytes(path.Join(dir, name), 0o644, []byte(treeUnit)); err != nil {
		return err
	}
	return a.addSymlink(path.Join(dir, "multi-user.target.wants", name), "../"+name)
}

// shownInTree are what the lab put beside the distribution, shown inside of it at
// the same paths.
var shownInTree = []string{guestInit, path.Dir(guestManifest), "/tests"}

// bootTree makes the distribution the root, and its init process 1: this one.
// It returns only if that fails. The tree becomes a mount of its own, on top of
// the kernel's first root, which no container could leave.
func bootTree() error {
	fail := func(what string, err error) error { return fmt.Errorf("init: %s: %s: %w", guestTree, what, err) }
	if err := bind(guestTree, guestTree); err != nil {
		return fail("mount", err)
	}
	for _, name := range shownInTree {
		if err := show(name); err != nil {
			return fail(name, err)
		}
	}
	if err := os.Chdir(guestTree); err != nil {
		return fail("enter", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fail("move", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fail("chroot", err)
	}
	return fail("/sbin/init", unix.Exec("/sbin/init", []string{"/sbin/init"}, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}))
}

// show binds a file or directory to its path inside the tree.
func show(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	at := path.Join(guestTree, name)
	if info.IsDir() {
		err = os.MkdirAll(at, 0o755)
	} else {
		err = os.WriteFile(at, nil, 0o755)
	}
	if err != nil {
		return err
	}
	return bind(name, at)
}

func bind(from, to string) error { return unix.Mount(from, to, "", unix.MS_BIND, "") }
