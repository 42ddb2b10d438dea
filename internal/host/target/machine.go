// SPDX-License-Identifier: MIT

package target

import (
	"regexp"
	"strconv"
	"strings"
)

// machines are the cgroups of containers and VMs that no engine's file tells of: of LXC, Incus and Proxmox; of
// systemd-nspawn; of libvirt, which counts its machines; of a task of Nomad. Each is where the machine's owner alone makes cgroups.
var machines = []*regexp.Regexp{
	regexp.MustCompile(`^lxc(?:\.payload\.|/)([^/]+)$`),
	regexp.MustCompile(`^machine\.slice/systemd-nspawn@([^/]+)\.service$`),
	regexp.MustCompile(`^machine\.slice/machine-(?:(?:qemu|lxc)\\x2d[0-9]+\\x2d)?([^/]+)\.scope$`),
	regexp.MustCompile(`^nomad\.slice/(?:share|reserve)\.slice/[0-9a-f-]{36}\.([^/]+)\.scope$`),
}

// escaped is a character of a unit's name that systemd does not take as it is.
var escaped = regexp.MustCompile(`\\x[0-9a-f]{2}`)

// machineOf is the name that its user gave the container, VM or task of a cgroup, "" for another cgroup. Several tasks
// of Nomad may have one name.
func machineOf(group string) string {
	for _, m := range machines {
		if match := m.FindStringSubmatch(group); match != nil {
			return escaped.ReplaceAllStringFunc(match[1], func(code string) string {
				n, err := strconv.ParseUint(strings.TrimPrefix(code, `\x`), 16, 8)
				if err != nil {
					return code
				}
				return string([]byte{byte(n)})
			})
		}
	}
	return ""
}
