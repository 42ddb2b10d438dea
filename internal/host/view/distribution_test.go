// SPDX-License-Identifier: MIT

package view

import (
	"testing"

	"isolio/internal/host/block"
	"isolio/internal/testtree"
)

// Headers are installed with the distribution's own package manager.
func TestHeadersByDistribution(t *testing.T) {
	for _, c := range []struct{ osRelease, release, want string }{
		{"ID=debian\n", "6.1.0-56-amd64", "apt-get install linux-headers-6.1.0-56-amd64"},
		{"NAME=\"Linux Mint\"\nID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "6.8.0-90-generic", "apt-get install linux-headers-6.8.0-90-generic"},
		{"ID=debian\n", "6.14.8-2-pve", "apt-get install proxmox-headers-6.14.8-2-pve"},
		{"ID=ubuntu\nID_LIKE=debian\n", "6.6.87.2-microsoft-standard-WSL2", "build WSL's kernel from its source: it has no package of headers"},
		{"ID=fedora\n", "6.17.4-300.fc43.x86_64", "dnf install kernel-devel-6.17.4-300.fc43.x86_64"},
		{"ID=\"almalinux\"\nID_LIKE=\"rhel centos fedora\"\n", "6.12.0-55.el10.x86_64", "dnf install kernel-devel-6.12.0-55.el10.x86_64"},
		{"ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n", "6.17.5-1-default", "zypper install kernel-default-devel"},
		{"ID=arch\n", "6.17.7-arch1-1", "pacman -S linux-headers"},
		{"ID=manjaro\nID_LIKE=arch\n", "6.12.57-1-lts", "pacman -S linux-lts-headers"},
		{"ID=nixos\n", "6.12.57", "add the modules to boot.extraModulePackages: packaging/nix in isolio's source"},
		{"ID=alpine\n", "6.12.57-0-virt", "apk add linux-virt-dev"},
		{"ID=raspbian\nID_LIKE=debian\n", "6.12.47+rpt-rpi-v8", "apt-get install linux-headers-6.12.47+rpt-rpi-v8"},
		{"ID=void\n", "6.12.57_1", "install the package that has /lib/modules/6.12.57_1/build"},
		{"", "6.12.57", "install the package that has /lib/modules/6.12.57/build"},
	} {
		root := t.TempDir()
		if c.osRelease != "" {
			testtree.File(t, root+"/etc/os-release", c.osRelease)
		}
		if got := getHeaders(osRelease(block.System{Root: root}), c.release); got != c.want {
			t.Errorf("%q, kernel %s: %q, want %q", c.osRelease, c.release, got, c.want)
		}
	}
}
