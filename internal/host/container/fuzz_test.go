// SPDX-License-Identifier: MIT

package container

import (
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/host/weight"
)

// FuzzFiles reads what engines write about a container, much of which its user
// chooses. The cgroup that a specification names lies in the tree.
func FuzzFiles(f *testing.F) {
	f.Add(uint8(0), []byte(`{"ID":"`+id("1")+`","Name":"/web","Config":{"Labels":{"tier":"gold"}}}`))
	f.Add(uint8(1), []byte(`{"BlkioWeight":500}`))
	f.Add(uint8(2), []byte(`[{"id":"`+id("2")+`","names":["db","database"]},{"id":"`+id("3")+`"}]`))
	f.Add(uint8(3), []byte(`{"annotations":{"io.kubernetes.pod.name":"p","io.kubernetes.cri-o.Labels":"{\"a\":\"b\"}"},"linux":{"cgroupsPath":"machine.slice:libpod:`+id("4")+`","resources":{"blockIO":{"weight":200}}}}`))
	f.Add(uint8(3), []byte(`{"linux":{"cgroupsPath":"/../../etc"}}`))
	f.Add(uint8(3), []byte(`{"linux":{"cgroupsPath":"`+strings.Repeat("-", 100000)+`:a:b"}}`))
	f.Add(uint8(3), []byte(`{"linux":{"cgroupsPath":"../../etc"}}`))
	f.Add(uint8(3), []byte(`{"linux":{"resources":{"blockIO":{"weight":65535}}}}`))
	f.Add(uint8(1), []byte(`{"BlkioWeight":-1}`))
	parsers := []func([]byte) []Container{dockerConfig, dockerHost, names, spec}
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		fuzzlimit.Run(t, uint64(64<<20+1000*len(text)), func() {
			for _, c := range parsers[int(kind)%len(parsers)](text) {
				if c.Cgroup != "" && !filepath.IsLocal(c.Cgroup) {
					t.Errorf("the cgroup is %q", c.Cgroup)
				}
				if c.Weight < 0 || c.Weight > weight.OCIMax {
					t.Errorf("the weight is %d", c.Weight)
				}
				c.name()
				_, _, _ = c.DisplayName(), c.PodGroup(), c.InnerGroup()
			}
		})
	})
}

// FuzzGroups finds containers by the names of cgroups, which the maker of a
// cgroup chooses.
func FuzzGroups(f *testing.F) {
	f.Add("system.slice/docker-"+id("1")+".scope\nkubepods/pod0a0a0a0a-1b1b-2c2c-3d3d-4e4e4e4e4e4e/"+id("5"), "a-b-c.slice")
	f.Add("docker/"+id("2")+"/container", "-.slice")
	f.Fuzz(func(t *testing.T, groups, slice string) {
		fuzzlimit.Run(t, uint64(64<<20+1000*len(groups)+1000*len(slice)), func() {
			for group := range strings.SplitSeq(groups, "\n") {
				for key, c := range inGroups([]string{group}) {
					if !hexID.MatchString(key) || c.ID != key || c.Cgroup != group {
						t.Errorf("%q became %+v", group, c)
					}
					_, _ = c.PodGroup(), c.ShortID()
				}
				_ = ScopeOf(group)
			}
			_ = SlicePath(slice)
		})
	})
}
