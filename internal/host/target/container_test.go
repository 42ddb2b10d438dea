// SPDX-License-Identifier: MIT

package target

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"isolio/internal/must"
	"isolio/internal/testtree"
)

func id(digit string) string { return strings.Repeat(digit, 64) }

const tasks = "run/containerd/io.containerd.runtime.v2.task/"

// Each engine, with systemd's cgroups and with its own.
func TestList(t *testing.T) {
	var (
		docker     = "system.slice/docker-" + id("1") + ".scope"
		dockerFS   = "docker/" + id("2")
		podman     = "machine.slice/libpod-" + id("3") + ".scope"
		crio       = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a0a0a0a_1b1b_2c2c_3d3d_4e4e4e4e4e4e.slice/crio-" + id("4") + ".scope"
		containerd = "kubepods/besteffort/pod0a0a0a0a-1b1b-2c2c-3d3d-4e4e4e4e4e4e/" + id("5")
		ctr        = "default/redis"
		rootless   = "user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id("8") + ".scope"
		nerdctl    = "system.slice/nerdctl-" + id("7") + ".scope"
		unknown    = "machine.slice/libpod-" + id("6") + ".scope"
	)
	root := testtree.New(t, map[string]string{
		"var/lib/docker/containers/" + id("1") + "/config.v2.json":               `{"ID":"` + id("1") + `","Name":"/web","Config":{"Labels":{"tier":"gold"}}}`,
		"var/lib/docker/containers/" + id("1") + "/hostconfig.json":              `{"BlkioWeight":300}`,
		tasks + "moby/" + id("1") + "/config.json":                               `{"linux":{"cgroupsPath":"system.slice:docker:` + id("1") + `","resources":{"blockIO":{"weight":200}}}}`,
		"var/lib/docker/containers/" + id("2") + "/config.v2.json":               `{"ID":"` + id("2") + `","Name":"/batch"}`,
		"var/lib/docker/containers/" + id("9") + "/config.v2.json":               `{"ID":"` + id("9") + `","Name":"/stopped"}`,
		"var/lib/containers/storage/overlay-containers/volatile-containers.json": `[{"id":"` + id("3") + `","names":["db"]}]`,
		"var/lib/containers/storage/overlay-containers/" + id("3") + "/userdata/config.json": `{"linux":{"cgroupsPath":"machine.slice:libpod:` + id("3") +
			`","resources":{"blockIO":{"weight":500}}}}`,
		"run/crun/" + id("3") + "/status":           "{}",
		"run/user/1000/crun/" + id("8") + "/status": "{}",
		"var/lib/containers/storage/overlay-containers/" + id("4") + "/userdata/config.json": `{"annotations":{"io.kubernetes.pod.name":"shop","io.kubernetes.pod.namespace":"prod",` +
			`"io.kubernetes.container.name":"cart","io.kubernetes.cri-o.Annotations":"{\"blockio.resources.beta.kubernetes.io/pod\":\"low\"}"}}`,
		tasks + "k8s.io/" + id("5") + "/config.json": `{"annotations":{"io.kubernetes.cri.container-type":"sandbox","io.kubernetes.cri.sandbox-name":"shop",` +
			`"io.kubernetes.cri.sandbox-namespace":"test"}}`,
		tasks + "default/redis/config.json":           `{"linux":{"cgroupsPath":"/default/redis"}}`,
		tasks + "default/" + id("7") + "/config.json": `{"annotations":{"nerdctl/name":"cache"},"linux":{"cgroupsPath":"system.slice:nerdctl:` + id("7") + `"}}`,
		tasks + "default/gone/config.json":            `{"linux":{"cgroupsPath":"/default/gone"}}`,
		tasks + "default/half/config.json":            `{"linux":{"cgroups`,
	})
	groups := []string{docker, dockerFS, dockerFS + "/inner", podman, podman + "/container", "machine.slice/libpod-conmon-" + id("3") + ".scope",
		crio, containerd, ctr, "default/half", unknown, nerdctl, rootless, "kubepods/" + id("5")}
	f := &Finder{Root: root}
	f.Keep(func(string) bool { return true })
	all, err := f.List(groups)
	must.OK(t, err)
	got := map[string]Container{}
	for _, c := range all {
		got[c.Cgroup] = c
	}
	for _, want := range []Container{
		{Cgroup: docker, Name: "web", Engine: "docker", SpecRead: true, Weight: 300},
		{Cgroup: dockerFS, Name: "batch", Engine: "docker"},
		{Cgroup: podman, Name: "db", Engine: "podman", SpecRead: true, Weight: 500, ByCrun: true},
		{Cgroup: crio, Name: "cart", Engine: "cri-o", SpecRead: true, Pod: "shop", Namespace: "prod"},
		{Cgroup: containerd, Engine: "containerd", SpecRead: true, Pod: "shop", Namespace: "test", Sandbox: true},
		{Cgroup: ctr, Engine: "containerd", SpecRead: true},
		{Cgroup: unknown, Engine: "podman"},
		{Cgroup: rootless, Engine: "podman", ByCrun: true},
		{Cgroup: nerdctl, Name: "cache", Engine: "containerd", SpecRead: true},
	} {
		c, ok := got[want.Cgroup]
		switch {
		case !ok:
			t.Errorf("%s: not found", want.Cgroup)
		case c.Name != want.Name || c.Engine != want.Engine || c.SpecRead != want.SpecRead || c.Weight != want.Weight || c.ByCrun != want.ByCrun ||
			c.Pod != want.Pod || c.Namespace != want.Namespace || c.Sandbox != want.Sandbox:
			t.Errorf("%s:\n got %+v\nwant %+v", want.Cgroup, c, want)
		}
	}
	if len(all) != 9 {
		t.Errorf("%d containers, want 9: %v", len(all), all)
	}
	if got[docker].Labels["tier"] != "gold" || got[crio].Annotations["blockio.resources.beta.kubernetes.io/pod"] != "low" {
		t.Errorf("labels %v, annotations %v", got[docker].Labels, got[crio].Annotations)
	}
	for group, want := range map[string]string{crio: filepath.Dir(crio), containerd: filepath.Dir(containerd), docker: "", podman: ""} {
		if pod := got[group].PodGroup(); pod != want {
			t.Errorf("%s: pod's cgroup is %q, want %q", group, pod, want)
		}
	}
	for group, want := range map[string]string{docker: "web", unknown: "666666666666", crio: "prod/shop/cart", ctr: "redis"} {
		if name := got[group].DisplayName(); name != want {
			t.Errorf("%s is called %q, want %q", group, name, want)
		}
	}
}

// Docker and containers/storage may keep their data elsewhere.
func TestListElsewhere(t *testing.T) {
	root := testtree.New(t, map[string]string{
		"etc/docker/daemon.json":                           `{"data-root":"/data/docker"}`,
		"data/docker/containers/1/config.v2.json":          `{"ID":"` + id("1") + `","Name":"/web"}`,
		"etc/containers/storage.conf":                      "[storage]\ngraphroot = \"/data/pods\"\n",
		"data/pods/vfs-containers/containers.json":         `[{"id":"` + id("2") + `","names":["db"]}]`,
		"var/lib/docker/containers/1/config.v2.json":       `{"ID":"` + id("1") + `","Name":"/old"}`,
		"var/lib/containers/storage/overlay-containers/no": "",
	})
	all, err := ListContainers(root, []string{"docker/" + id("1"), "machine.slice/libpod-" + id("2") + ".scope"})
	if err != nil || len(all) != 2 || all[0].Name != "web" || all[1].Name != "db" {
		t.Errorf("List = %+v, %v", all, err)
	}
}

func TestGroupOf(t *testing.T) {
	for path, want := range map[string]string{
		"/docker/x":               "docker/x",
		"system.slice:docker:x":   "system.slice/docker-x.scope",
		":docker:x":               "system.slice/docker-x.scope",
		"a-b-c.slice:crio:x":      "a.slice/a-b.slice/a-b-c.slice/crio-x.scope",
		"machine.slice::whatever": "machine.slice/whatever.scope",
		"-.slice:docker:x":        "docker-x.scope",
		"":                        "",
		"/":                       "",
	} {
		if got := groupOf(path); got != want {
			t.Errorf("groupOf(%s) = %s, want %s", path, got, want)
		}
	}
}

// A file is read again when it is another one, and only then.
func TestFinderSeesWhatChanges(t *testing.T) {
	const file = "var/lib/docker/containers/a/config.v2.json"
	group := "docker/" + id("1")
	root := testtree.New(t, nil)
	written := time.Unix(1e9, 0)
	write := func(name string) {
		t.Helper()
		must.OK(t, os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755))
		text := `{"ID":"` + id("1") + `","Name":"/` + name + `"}`
		testtree.File(t, filepath.Join(root, file), text)
		written = written.Add(time.Minute) // long ago, as times of files go
		must.OK(t, os.Chtimes(filepath.Join(root, file), written, written))
	}
	f := &Finder{Root: root}
	for _, want := range []string{"web", "web", "two", "two"} {
		if known, ok := f.told[filepath.Join(root, file)].value.(Container); !ok || known.Name != want {
			write(want)
		}
		all, err := f.List([]string{group})
		if err != nil || len(all) != 1 || all[0].Name != want {
			t.Fatalf("List = %+v, %v; want %s", all, err, want)
		}
	}
	kept := f.told[filepath.Join(root, file)]
	if kept.value == nil {
		t.Fatal("nothing is kept")
	}
	kept.value = Container{ID: id("1"), Name: "kept"}
	f.told[filepath.Join(root, file)] = kept
	if all, err := f.List([]string{group}); err != nil || all[0].Name != "kept" {
		t.Errorf("List = %+v, %v; the file was read again", all, err)
	}
	must.OK(t, os.Remove(filepath.Join(root, file)))
	must.OK(t, os.RemoveAll(filepath.Join(root, "var")))
	if all, err := f.List([]string{group}); err != nil || all[0].Name != "" || len(f.told) != 0 {
		t.Errorf("List = %+v, %v, %d kept; want one without a name, and nothing kept", all, err, len(f.told))
	}
}
