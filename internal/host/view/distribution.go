// SPDX-License-Identifier: MIT

package view

import (
	"os"
	"runtime"
	"slices"
	"strings"

	"isolio/internal/host/block"
)

// osRelease is what /etc/os-release has of the distribution: ID, then what it is like.
func osRelease(sys block.System) []string {
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		text, err := os.ReadFile(sys.Path(file))
		if err != nil {
			continue
		}
		var id, like string
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			value = strings.Trim(value, `"'`)
			switch key {
			case "ID":
				id = value
			case "ID_LIKE":
				like = value
			}
		}
		return append([]string{id}, strings.Fields(like)...)
	}
	return nil
}

// getKernel is the command that installs a kernel of the distribution's own, and its headers, where dpkg is.
func getKernel(distributions []string) string {
	flavour := runtime.GOARCH
	if slices.Contains(distributions, "ubuntu") {
		flavour = "generic"
	}
	return "apt-get install linux-image-" + flavour + " linux-headers-" + flavour + ": then boot it"
}

// getHeaders is the command that installs the headers of a kernel, with the package manager
// of the distribution.
func getHeaders(distributions []string, release string) string {
	flavour := release[strings.LastIndexByte(release, '-')+1:]
	if strings.Contains(release, "microsoft") {
		return "build WSL's kernel from its source: it has no package of headers"
	}
	for _, id := range distributions {
		switch id {
		case "debian", "ubuntu":
			if flavour == "pve" {
				return "apt-get install proxmox-headers-" + release
			}
			return "apt-get install linux-headers-" + release
		case "fedora", "rhel", "centos":
			return "dnf install kernel-devel-" + release
		case "suse", "opensuse", "sles":
			return "zypper install kernel-" + flavour + "-devel"
		case "arch":
			switch flavour {
			case "lts", "zen", "hardened":
				return "pacman -S linux-" + flavour + "-headers"
			}
			return "pacman -S linux-headers"
		case "alpine":
			return "apk add linux-" + flavour + "-dev"
		case "nixos":
			return "add the modules to boot.extraModulePackages: packaging/nix in isolio's source"
		}
	}
	return "install the package that has /lib/modules/" + release + "/build"
}
