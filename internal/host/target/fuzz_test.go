// SPDX-License-Identifier: MIT

package target

import (
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/host/state"
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
	d := &disk{keep: func(string) bool { return true }}
	parsers := []func([]byte) (Container, error){d.dockerConfig, hostConfig, nil, d.spec, d.taskSpec, d.kubernetesSpec, d.storageSpec}
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		fuzzlimit.Run(t, uint64(64<<20+1000*len(text)), func() {
			parse := parsers[int(kind)%len(parsers)]
			if parse == nil {
				_, _ = listedNames(text)
				return
			}
			c, err := parse(text)
			if err != nil {
				return
			}
			if c.Cgroup != "" && !filepath.IsLocal(c.Cgroup) {
				t.Errorf("the cgroup is %q", c.Cgroup)
			}
			if c.Weight < 0 || c.Weight > weight.OCIMax {
				t.Errorf("the weight is %d", c.Weight)
			}
			_, _, _ = c.DisplayName(), c.PodGroup(), c.InnerGroup()
		})
	})
}

// FuzzReport reads what a runtime told of pods, whose authors choose much of it. The
// cgroups lie in the tree.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"engine":"containerd","pods":[{"id":"` + id("1") + `","uid":"u","namespace":"n","name":"p","cgroups_path":"a-b.slice:cri-containerd:c",` +
		`"annotations":{"isolio.dev/weight":"300"},"containers":[{"id":"` + id("2") + `","name":"c","cgroups_path":"/../../etc"}]}]}`))
	f.Add([]byte(`{"pods":[{"id":"","cgroup_parent":"kubepods-pod11111111_1111_1111_1111_111111111111.slice"},{"cgroup_parent":"../.."},{"cgroup_parent":"-.slice"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzlimit.Run(t, uint64(64<<20+1000*len(text)), func() {
			r, err := unmarshal[state.PodReport](text)
			if err != nil {
				return
			}
			d := &disk{keep: func(string) bool { return true }}
			records := map[string]Container{}
			for _, c := range reportedContainers(r, d.kept) {
				if c.Cgroup != "" && !filepath.IsLocal(c.Cgroup) || c.podAt != "" && !filepath.IsLocal(c.podAt) {
					t.Errorf("the cgroups are %q and %q", c.Cgroup, c.podAt)
				}
				records[c.ID] = c
			}
			for _, c := range placed(records, []string{"kubepods.slice", "kubepods.slice/kubepods-pod11111111_1111_1111_1111_111111111111.slice"}) {
				_, _ = c.DisplayName(), c.PodGroup()
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
				for _, c := range placed(nil, []string{group}) {
					if !hexID.MatchString(c.ID) || c.Cgroup != group || c.Name != "" {
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
