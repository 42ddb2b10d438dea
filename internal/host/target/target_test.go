// SPDX-License-Identifier: MIT

package target

import (
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/host/cgroup"
)

func TestFind(t *testing.T) {
	id := strings.Repeat("ab", 32)
	pod := "kubepods.slice/kubepods-pod0a0a0a0a_1b1b_2c2c_3d3d_4e4e4e4e4e4e.slice"
	podmanPod := "machine.slice/machine-libpod_pod_" + strings.Repeat("c", 64) + ".slice"
	w := World{
		Tree: cgroup.Tree{Root: "/sys/fs/cgroup"},
		Groups: []string{"system.slice", "system.slice/nginx.service", "plain", "plain/web", pod, pod + "/crio-" + id + ".scope",
			"system.slice/docker-x.scope", podmanPod, podmanPod + "/libpod-d.scope"},
		Containers: []Container{
			{ID: id, Name: "cart", Namespace: "prod", Pod: "shop", PodUID: "0a0a", Cgroup: pod + "/crio-" + id + ".scope"},
			{ID: "x", Name: "web", Cgroup: "system.slice/docker-x.scope"},
			{ID: "d", Name: "db", Cgroup: podmanPod + "/libpod-d.scope"},
		},
	}
	for name, want := range map[string]Target{
		"plain":                {CgroupKind, "plain", "plain", ""},
		"/plain/web/":          {CgroupKind, "plain/web", "plain/web", ""},
		"/sys/fs/cgroup/plain": {CgroupKind, "plain", "plain", ""},
		"nginx":                {UnitKind, "nginx.service", "system.slice/nginx.service", "nginx.service"},
		"nginx.service":        {UnitKind, "nginx.service", "system.slice/nginx.service", "nginx.service"},
		"system.slice":         {UnitKind, "system.slice", "system.slice", "system.slice"},
		"web":                  {ContainerKind, "web", "system.slice/docker-x.scope", "docker-x.scope"},
		"docker-x.scope":       {ContainerKind, "web", "system.slice/docker-x.scope", "docker-x.scope"},
		"abab":                 {ContainerKind, "prod/shop/cart", pod + "/crio-" + id + ".scope", "crio-" + id + ".scope"},
		"prod/shop/cart":       {ContainerKind, "prod/shop/cart", pod + "/crio-" + id + ".scope", "crio-" + id + ".scope"},
		"shop":                 {PodKind, "prod/shop", pod, "kubepods-pod0a0a0a0a_1b1b_2c2c_3d3d_4e4e4e4e4e4e.slice"},
		"prod/shop":            {PodKind, "prod/shop", pod, "kubepods-pod0a0a0a0a_1b1b_2c2c_3d3d_4e4e4e4e4e4e.slice"},
		"cccc":                 {PodKind, "machine-libpod_pod_" + strings.Repeat("c", 64), podmanPod, "machine-libpod_pod_" + strings.Repeat("c", 64) + ".slice"},
	} {
		if got, err := w.Find(name); err != nil || got != want {
			t.Errorf("Find(%s) = %+v, %v; want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{"", "aba", "nobody", "/", "nginx.slice"} {
		if got, err := w.Find(name); failure.Code(err) != failure.Usage {
			t.Errorf("Find(%q) = %+v, %v", name, got, err)
		}
	}
}

// An empty name matches no container, not all those without a name. A message stays short.
func TestFindNotOne(t *testing.T) {
	w := World{Tree: cgroup.Tree{Root: "/sys/fs/cgroup"}}
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		w.Groups = append(w.Groups, n)
		w.Containers = append(w.Containers, Container{ID: "abcd" + n, Cgroup: n})
	}
	w.Containers[4].Name = "2"
	for name, want := range map[string]string{"": "it is empty", "abcd": "give the path of one: /1, /2, /3 and 2 more", "2": "give the path of one: /2, /5"} {
		if _, err := w.Find(name); failure.Code(err) != failure.Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("Find(%q): %v, want %s", name, err, want)
		}
	}
	if got, err := w.Find("/2"); err != nil || got.Group != "2" {
		t.Errorf("Find(/2) = %+v, %v", got, err)
	}
}
