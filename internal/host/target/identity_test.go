// SPDX-License-Identifier: MIT

package target

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"isolio/internal/must"
	"isolio/internal/testtree"
)

// all keeps every label and annotation.
func all(string) bool { return true }

// find lists the containers of a machine by their cgroups.
func find(t *testing.T, f *Finder, groups ...string) map[string]Container {
	t.Helper()
	list, err := f.List(groups)
	must.OK(t, err)
	found := map[string]Container{}
	for _, c := range list {
		found[c.Cgroup] = c
	}
	return found
}

const pod = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a0a0a0a_1b1b_2c2c_3d3d_4e4e4e4e4e4e.slice"

func text(t *testing.T, value any) string {
	t.Helper()
	b, err := json.Marshal(value)
	must.OK(t, err)
	return string(b)
}

// forged are the keys by which each engine says who a container is, with the
// identity that a tenant wants.
var forged = map[string]string{
	"io.kubernetes.cri.container-name": "postgres", "io.kubernetes.cri.sandbox-name": "db-0", "io.kubernetes.cri.sandbox-namespace": "prod",
	"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.container.name": "postgres", "io.kubernetes.pod.name": "db-0",
	"io.kubernetes.pod.namespace": "prod", "io.kubernetes.docker.type": "podsandbox", "io.kubernetes.cri-o.ContainerType": "sandbox",
	"io.kubernetes.cri-o.Labels":   `{"io.kubernetes.pod.name":"db-0","io.kubernetes.container.name":"postgres"}`,
	"io.kubernetes.cri-o.Metadata": `{"name":"postgres"}`, "io.kubernetes.cri-o.KubeName": "db-0", "nerdctl/name": "postgres",
}

// with is the forged keys with others that the engine wrote over them.
func with(over map[string]string) map[string]string {
	m := map[string]string{}
	for _, from := range []map[string]string{forged, over} {
		maps.Copy(m, from)
	}
	return m
}

// A tenant writes labels of images and annotations of pods. None of them makes a
// container another one, nor hides it.
func TestIdentityIsTheEnginesOwn(t *testing.T) {
	config := func(path string, annotations map[string]string) string {
		return text(t, map[string]any{"annotations": annotations, "linux": map[string]any{"cgroupsPath": path}})
	}
	for _, tt := range []struct {
		engine, group string
		files         map[string]string
		want          Container
	}{
		{"an image's labels, in Docker", "system.slice/docker-" + id("1") + ".scope", map[string]string{
			"var/lib/docker/containers/" + id("1") + "/config.v2.json": text(t, map[string]any{"ID": id("1"), "Name": "/batch-7", "Config": map[string]any{"Labels": forged}}),
			tasks + "moby/" + id("1") + "/config.json":                 config("system.slice:docker:"+id("1"), forged),
		}, Container{Engine: "docker", Name: "batch-7"}},
		{"annotations, in Docker without its own file", "system.slice/docker-" + id("6") + ".scope", map[string]string{
			tasks + "moby/" + id("6") + "/config.json": config("system.slice:docker:"+id("6"), forged),
		}, Container{Engine: "docker"}},
		{"a pod's annotations, in CRI-O", pod + "/crio-" + id("2") + ".scope", map[string]string{
			"var/lib/containers/storage/overlay-containers/" + id("2") + "/userdata/config.json": config(filepath.Base(pod)+":crio:"+id("2"), with(map[string]string{
				"io.kubernetes.container.name": "miner", "io.kubernetes.pod.name": "job", "io.kubernetes.pod.namespace": "tenant-b",
				"io.kubernetes.cri-o.ContainerType": "container", "io.kubernetes.cri-o.Annotations": text(t, forged), "io.kubernetes.cri-o.Labels": "{}",
			})),
		}, Container{Engine: "cri-o", Name: "miner", Pod: "job", Namespace: "tenant-b"}},
		{"a pod's annotations, in containerd", pod + "/cri-containerd-" + id("3") + ".scope", map[string]string{
			tasks + "k8s.io/" + id("3") + "/config.json": config(filepath.Base(pod)+":cri-containerd:"+id("3"), with(map[string]string{
				"io.kubernetes.cri.container-name": "miner", "io.kubernetes.cri.sandbox-name": "job", "io.kubernetes.cri.sandbox-namespace": "tenant-b",
				"io.kubernetes.cri.container-type": "container",
			})),
		}, Container{Engine: "containerd", Name: "miner", Pod: "job", Namespace: "tenant-b"}},
		{"an image's annotations, in podman", "machine.slice/libpod-" + id("4") + ".scope", map[string]string{
			"var/lib/containers/storage/overlay-containers/volatile-containers.json":             `[{"id":"` + id("4") + `","names":["batch-7"]}]`,
			"var/lib/containers/storage/overlay-containers/" + id("4") + "/userdata/config.json": config("machine.slice:libpod:"+id("4"), forged),
		}, Container{Engine: "podman", Name: "batch-7"}},
		{"annotations of a client of containerd's", "default/x", map[string]string{
			tasks + "default/x/config.json": config("/default/x", with(map[string]string{"nerdctl/name": "batch-7"})),
		}, Container{Engine: "containerd", Name: "batch-7"}},
		{"Kubernetes through Docker", pod + "/docker-" + id("5") + ".scope", map[string]string{
			"var/lib/docker/containers/" + id("5") + "/config.v2.json": text(t, map[string]any{
				"ID": id("5"), "Name": "/k8s_miner_job_tenant-b_0a0a_0", "Config": map[string]any{"Labels": forged},
			}),
		}, Container{Engine: "docker", Name: "miner", Pod: "job", Namespace: "tenant-b"}},
	} {
		f := &Finder{Root: testtree.New(t, tt.files)}
		f.Keep(all)
		c, ok := find(t, f, filepath.Dir(tt.group), tt.group)[tt.group]
		if !ok {
			t.Errorf("%s: the container is not found", tt.engine)
			continue
		}
		if c.Engine != tt.want.Engine || c.Name != tt.want.Name || c.Pod != tt.want.Pod || c.Namespace != tt.want.Namespace || c.Sandbox {
			t.Errorf("%s: %+v, want %+v", tt.engine, c, tt.want)
		}
	}
}

// A tenant makes cgroups inside of its own, and names them after a neighbour's.
func TestAContainerKeepsItsCgroup(t *testing.T) {
	const a, b = "a", "b"
	victim := "system.slice/docker-" + id(b) + ".scope"
	attacker := "system.slice/docker-" + id(a) + ".scope"
	files := map[string]string{
		"var/lib/docker/containers/" + id(a) + "/config.v2.json": `{"ID":"` + id(a) + `","Name":"/attacker"}`,
		"var/lib/docker/containers/" + id(b) + "/config.v2.json": `{"ID":"` + id(b) + `","Name":"/victim"}`,
	}
	spec := map[string]string{
		tasks + "moby/" + id(a) + "/config.json": `{"linux":{"cgroupsPath":"system.slice:docker:` + id(a) + `"}}`,
		tasks + "moby/" + id(b) + "/config.json": `{"linux":{"cgroupsPath":"system.slice:docker:` + id(b) + `"}}`,
	}
	user := "user.slice/user-1000.slice/user@1000.service"
	for _, withSpec := range []bool{false, true} {
		root := testtree.New(t, files)
		if withSpec {
			testtree.Write(t, root, spec)
		}
		for _, impostor := range []string{
			attacker + "/docker-" + id(b) + ".scope", attacker + "/deep/er/" + id(b), user + "/app.slice/docker-" + id(b) + ".scope",
		} {
			groups := []string{"system.slice", attacker, filepath.Dir(impostor), impostor, victim}
			found := find(t, &Finder{Root: root}, groups...)
			if found[victim].Name != "victim" || found[attacker].Name != "attacker" {
				t.Errorf("specification %v, impostor %s: %+v", withSpec, impostor, found)
			}
			if c, ok := found[impostor]; ok {
				t.Errorf("the impostor is the container %+v", c)
			}
			// With the victim stopped there is no container to impersonate.
			found = find(t, &Finder{Root: root}, groups[:4]...)
			if c := found[impostor]; c.Name != "" {
				t.Errorf("specification %v: with the victim stopped, the impostor is %+v", withSpec, c)
			}
		}
	}
}

// A pod's weight goes to its own cgroup only, and it is the pod's own container
// that tells which pod that is.
func TestPodGroup(t *testing.T) {
	const (
		podUID  = "11111111_1111_1111_1111_111111111111"
		kindPod = "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod" + podUID + ".slice"
	)
	for group, want := range map[string]string{
		pod + "/crio-" + id("1") + ".scope": pod,
		// Kubelet with --cgroup-root=/kubelet, as kind has it: driver systemd, and cgroupfs.
		kindPod + "/cri-containerd-" + id("1") + ".scope":         kindPod,
		"kubelet/kubepods/burstable/pod" + podUID + "/" + id("1"): "kubelet/kubepods/burstable/pod" + podUID,
		"user.slice/my-pod" + podUID + ".slice/" + id("1"):        "",
		"docker/" + id("1"):           "",
		"system.slice/docker-1.scope": "",
	} {
		if got := (Container{Cgroup: group, Pod: "job"}).PodGroup(); got != want {
			t.Errorf("%s: the pod's cgroup is %q, want %q", group, got, want)
		}
	}
}

// What a file told holds while it is written again, or cannot be read.
func TestAFileThatIsBroken(t *testing.T) {
	const list = "var/lib/containers/storage/overlay-containers/containers.json"
	config := "var/lib/docker/containers/" + id("2") + "/config.v2.json"
	podman, docker := "machine.slice/libpod-"+id("1")+".scope", "docker/"+id("2")
	root := testtree.New(t, map[string]string{
		list:   `[{"id":"` + id("1") + `","names":["db"]}]`,
		config: `{"ID":"` + id("2") + `","Name":"/web"}`,
		"var/lib/containers/storage/overlay-containers/" + id("1") + "/userdata/config.json": `{}`,
	})
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		testtree.File(t, file, text)
	}
	f := &Finder{Root: root}
	names := func() string {
		found := find(t, f, podman, docker)
		return fmt.Sprint(found[podman].Name, " ", found[docker].Name)
	}
	if got := names(); got != "db web" || len(f.Faults()) != 0 {
		t.Fatalf("%s, faults %v", got, f.Faults())
	}
	put(list, `[{"id":"`)
	put(config, ``)
	if got := names(); got != "db web" || len(f.Faults()) != 2 {
		t.Errorf("half written: %s, faults %v", got, f.Faults())
	}
	must.OK(t, os.Remove(filepath.Join(root, config)))
	must.OK(t, os.Mkdir(filepath.Join(root, config), 0o755))
	if got := names(); got != "db web" || len(f.Faults()) != 2 {
		t.Errorf("a directory: %s, faults %v", got, f.Faults())
	}
	put(list, `[{"id":"`+id("1")+`","names":["other"]}]`)
	if got := names(); got != "other web" || len(f.Faults()) != 1 {
		t.Errorf("whole again: %s, faults %v", got, f.Faults())
	}
	// What was never read is not taken for a container without a name.
	if found := find(t, &Finder{Root: root}, podman, docker); !found[docker].Unsure || found[podman].Unsure {
		t.Errorf("sure of what was never read, or not of what was: %+v", found)
	}
	put(list, `[{"id":"`)
	if found := find(t, &Finder{Root: root}, podman); !found[podman].Unsure {
		t.Errorf("%+v is sure", found[podman])
	}
}

// Labels of images are of any size and number. They cost no memory for longer than
// they are read, and what is too large is left.
func TestMemoryIsBounded(t *testing.T) {
	huge := strings.Repeat("x", 4<<20)
	files := map[string]string{}
	var groups []string
	for i := range 12 {
		one := strings.Repeat(fmt.Sprintf("%04x", i), 16)
		groups = append(groups, "docker/"+one)
		files["var/lib/docker/containers/"+one+"/config.v2.json"] = `{"ID":"` + one + `","Name":"/c` + fmt.Sprint(i) + `","Config":{"Labels":{"tier":"` + huge + `","other":"` + huge[:3<<20] + `"}}}`
	}
	root := testtree.New(t, files)
	clear(files)
	long := time.Now().Add(-time.Hour)
	over := filepath.Join(root, "var/lib/docker/containers", filepath.Base(groups[11]), "config.v2.json")
	testtree.File(t, over, `{"ID":"`+filepath.Base(groups[11])+`","Name":"/big","Config":{"Labels":{"tier":"`+huge+huge+`"}}}`)
	for _, group := range groups {
		must.OK(t, os.Chtimes(filepath.Join(root, "var/lib/docker/containers", filepath.Base(group), "config.v2.json"), long, long))
	}
	f := &Finder{Root: root}
	f.Keep(func(key string) bool { return key == "tier" })
	huge = ""
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	found := find(t, f, groups...)
	if grown := int64(heap()) - int64(before); grown > 1<<20 {
		t.Errorf("%d bytes are kept", grown)
	}
	if c := found[groups[0]]; c.Name != "c0" || len(c.Labels["tier"]) != MaxValueBytes || len(c.Labels) != 1 {
		t.Errorf("%s has %d bytes of the label, and %d labels", c.Name, len(c.Labels["tier"]), len(c.Labels))
	}
	if c := found[groups[11]]; c.Name != "" || c.Unsure || !strings.Contains(f.Faults()[over], "too large") {
		t.Errorf("%+v, %v", c, f.Faults())
	}
	// Other rules ask for other labels.
	f.Keep(func(key string) bool { return key == "other" })
	if c := find(t, f, groups...)[groups[0]]; len(c.Labels) != 1 || c.Labels["other"] == "" {
		t.Errorf("%d labels", len(c.Labels))
	}
	runtime.KeepAlive(found)
}

// Engines keep their files where their packages, snaps and distributions have them.
func TestPlaces(t *testing.T) {
	spec := func(n string) string { return `{"linux":{"cgroupsPath":"system.slice:x:` + id(n) + `"}}` }
	kubernetes := func(n string) string {
		return `{"annotations":{"io.kubernetes.cri.container-name":"c` + n + `","io.kubernetes.cri.sandbox-name":"p","io.kubernetes.cri.sandbox-namespace":"n"},` +
			`"linux":{"cgroupsPath":"` + filepath.Base(pod) + `:cri-containerd:` + id(n) + `"}}`
	}
	const runtimeDir = "/io.containerd.runtime.v2.task/"
	files := map[string]string{
		"run/k3s/containerd" + runtimeDir + "k8s.io/" + id("1") + "/config.json":                      kubernetes("1"),
		"var/snap/microk8s/common/run/containerd" + runtimeDir + "k8s.io/" + id("2") + "/config.json": kubernetes("2"),
		"run/k0s/containerd" + runtimeDir + "k8s.io/" + id("3") + "/config.json":                      kubernetes("3"),
		"etc/containerd/config.toml":                                                      "version = 2\nstate = \"/data/containerd\"\n",
		"data/containerd" + runtimeDir + "k8s.io/" + id("4") + "/config.json":             kubernetes("4"),
		"var/lib/docker/100000.100000/containers/" + id("5") + "/config.v2.json":          `{"ID":"` + id("5") + `","Name":"/c5"}`,
		"var/snap/docker/common/var-lib-docker/containers/" + id("6") + "/config.v2.json": `{"ID":"` + id("6") + `","Name":"/c6"}`,
		"run/docker/containerd/daemon" + runtimeDir + "moby/" + id("6") + "/config.json":  spec("6"),
		"var/lib/docker/image/100000.100000/containers/" + id("7") + "/config.v2.json":    `{"ID":"` + id("7") + `","Name":"/no"}`,
	}
	groups := []string{pod}
	for _, n := range []string{"1", "2", "3", "4"} {
		groups = append(groups, pod+"/cri-containerd-"+id(n)+".scope")
	}
	groups = append(groups, "docker/"+id("5"), "system.slice/x-"+id("6")+".scope", "docker/"+id("7"))
	found := find(t, &Finder{Root: testtree.New(t, files)}, groups...)
	for i, group := range groups[1:7] {
		if c := found[group]; c.Name != fmt.Sprintf("c%d", i+1) {
			t.Errorf("%s is %+v, want c%d", group, c, i+1)
		}
	}
	if c := found[groups[7]]; c.Name != "" {
		t.Errorf("%+v", c)
	}
}

func TestTenant(t *testing.T) {
	for group, want := range map[string]string{
		"system.slice": "",
		"kubepods.slice/kubepods-burstable.slice":                          "",
		"system.slice/nginx.service":                                       "system.slice/nginx.service",
		"system.slice/nginx.service/a/b.service":                           "system.slice/nginx.service",
		"docker/" + id("1"):                                                "docker/" + id("1"),
		"docker/" + id("1") + "/x/docker-" + id("2") + ".scope":            "docker/" + id("1"),
		"user.slice/user-1000.slice/user@1000.service/app.slice/a.service": "user.slice/user-1000.slice/user@1000.service",
		"lxc.payload.box/system.slice/a.service":                           "lxc.payload.box",
		"machine.slice/machine-box.scope/payload":                          "machine.slice/machine-box.scope",
		"machine.slice/libpod-" + id("3") + ".scope/container":             "machine.slice/libpod-" + id("3") + ".scope",
		"": "",
	} {
		if got := TenantOf(group); got != want {
			t.Errorf("Tenant(%s) = %q, want %q", group, got, want)
		}
	}
}
