// SPDX-License-Identifier: MIT

package target

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// groupOf is the cgroup of an OCI cgroupsPath: a path, or "SLICE:PREFIX:NAME"
// for a scope of systemd; "" for one that no cgroup has.
func groupOf(path string) string {
	if len(path) > pathMax {
		return ""
	}
	group := groupAt(path)
	if group == "." || !filepath.IsLocal(group) || len(group) > pathMax {
		return ""
	}
	return group
}

// What the kernel takes: bytes of a path, and of a name in it.
const (
	pathMax = 4096
	nameMax = 255
)

func groupAt(path string) string {
	parts := strings.Split(path, ":")
	if len(parts) != 3 {
		return strings.TrimPrefix(filepath.Clean(path), "/")
	}
	slice, prefix, name := parts[0], parts[1], parts[2]
	if slice == "" {
		slice = "system.slice"
	}
	if prefix != "" {
		name = prefix + "-" + name
	}
	return filepath.Join(SlicePath(slice), name+".scope")
}

// parentOf is the cgroup that a pod's parent names: a slice of systemd's or a path; ""
// for one that no cgroup has.
func parentOf(parent string) string {
	if strings.HasSuffix(parent, ".slice") && !strings.Contains(parent, "/") {
		parent = SlicePath(parent)
	}
	if len(parent) > pathMax {
		return ""
	}
	if parent = strings.TrimPrefix(filepath.Clean(parent), "/"); parent == "." || !filepath.IsLocal(parent) {
		return ""
	}
	return parent
}

// SlicePath is the cgroup of a systemd slice: a-b.slice lies in a.slice.
func SlicePath(slice string) string {
	switch {
	case len(slice) > nameMax:
		return slice // there is none: the path would grow with the square
	case slice == "-.slice":
		return "" // systemd's name for the root
	}
	name := strings.TrimSuffix(slice, ".slice")
	var dirs []string
	for i := range name {
		if name[i] == '-' {
			dirs = append(dirs, name[:i]+".slice")
		}
	}
	return filepath.Join(append(dirs, slice)...)
}

// TenantOf is the outermost cgroup above a group, or itself, in which a tenant, and
// not only the machine's owner, may make cgroups: a container's, or a unit's that
// systemd delegates to what runs there, such as a user's own systemd. "" is
// none.
func TenantOf(group string) string {
	for end := 0; end < len(group); {
		if next := strings.IndexByte(group[end:], '/'); next >= 0 {
			end += next
		} else {
			end = len(group)
		}
		if name := filepath.Base(group[:end]); groupName.MatchString(name) || hasInside.MatchString(name) {
			return group[:end]
		}
		end++
	}
	return ""
}

// LimitPerTenant leaves out what is beyond so many cgroups inside of each tenant's, and tells how
// many such a tenant has. A tenant makes as many as it likes.
func LimitPerTenant(groups []string, most int) (kept []string, over map[string]int) {
	inside := map[string]int{}
	kept = slices.DeleteFunc(groups, func(group string) bool {
		tenant := TenantOf(group)
		if tenant == "" || tenant == group {
			return false
		}
		inside[tenant]++
		return inside[tenant] > most
	})
	maps.DeleteFunc(inside, func(_ string, nr int) bool { return nr <= most })
	return kept, inside
}

// hasInside is what may have a tree of its own: units that are no slices, and
// containers of LXC and Incus.
var hasInside = regexp.MustCompile(`\.(?:service|scope)$|^lxc\.payload\.`)
