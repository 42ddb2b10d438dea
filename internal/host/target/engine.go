// SPDX-License-Identifier: MIT

package target

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"isolio/internal/host/weight"
)

// dockerConfig is what is read of the Docker daemon's config.v2.json.
type dockerConfig struct {
	ID, Name string
	Config   struct{ Labels picked }
}

// docker reads the Docker daemon's own files.
func (d *disk) docker() []Container {
	var all []Container
	for _, root := range d.dockerRoots() {
		for _, id := range d.names(d.path(root, "containers")) {
			dir := d.path(root, "containers", id)
			c, sure := of(d, filepath.Join(dir, "config.v2.json"), d.dockerConfig)
			// `docker update` writes this one, and not the OCI specification.
			host, hostSure := of(d, filepath.Join(dir, "hostconfig.json"), hostConfig)
			c.ID = cmp.Or(c.ID, id)
			c.Engine = "docker"
			c.SpecRead, c.Weight = host.SpecRead, host.Weight
			c.Unsure = !sure || !hostSure
			all = append(all, c)
		}
	}
	return all
}

// dockerConfig takes a config.v2.json. Its labels are the image's as well, so
// they do not tell who a container is: the name does, which is Docker's own key.
func (d *disk) dockerConfig(text []byte) (Container, error) {
	var config dockerConfig
	config.Config.Labels.want = d.keep
	if err := json.Unmarshal(text, &config); err != nil {
		return Container{}, err
	}
	c := Container{ID: config.ID, Labels: d.kept(config.Config.Labels.all)}
	name := strings.TrimPrefix(config.Name, "/")
	// Kubernetes has Docker's containers called k8s_NAME_POD_NAMESPACE_UID_ATTEMPT;
	// none of its own names has a "_".
	if part := strings.Split(name, "_"); len(part) == 6 && part[0] == "k8s" {
		c.is(identity{name: part[1], pod: part[2], namespace: part[3], podUID: part[4], sandbox: part[1] == "POD"})
		return c, nil
	}
	c.Name = name
	return c, nil
}

func hostConfig(text []byte) (Container, error) {
	host, err := unmarshal[struct{ BlkioWeight int }](text)
	return Container{SpecRead: true, Weight: inRange(host.BlkioWeight)}, err
}

// remapped is Docker's directory for a user namespace: UID.GID.
var remapped = regexp.MustCompile(`^[0-9]+\.[0-9]+$`)

// dockerRoots are where Docker keeps its data: the package's, the snap's, and in
// them those of user namespaces.
func (d *disk) dockerRoots() []string {
	config, _ := of(d, d.path("etc/docker/daemon.json"), unmarshal[struct {
		DataRoot string `json:"data-root"`
	}])
	roots := []string{cmp.Or(d.dataRootFlag(), config.DataRoot, "var/lib/docker"), "var/snap/docker/common/var-lib-docker"}
	for _, root := range slices.Clone(roots) {
		for _, name := range d.names(d.path(root)) {
			if remapped.MatchString(name) {
				roots = append(roots, filepath.Join(root, name))
			}
		}
	}
	return roots
}

// dockerUnits have the flags of the daemon, the files that win first.
var dockerUnits = []string{
	"etc/systemd/system/docker.service.d", "run/systemd/system/docker.service.d", "usr/lib/systemd/system/docker.service.d",
	"etc/systemd/system/docker.service", "usr/lib/systemd/system/docker.service", "lib/systemd/system/docker.service", "etc/default/docker", "etc/sysconfig/docker",
}

// dataRootFlag is what the daemon's command line has for its data, "" for nothing.
func (d *disk) dataRootFlag() string {
	for _, unit := range dockerUnits {
		files := []string{unit}
		if strings.HasSuffix(unit, ".d") {
			files = nil
			for _, name := range slices.Backward(d.names(d.path(unit))) {
				files = append(files, filepath.Join(unit, name))
			}
		}
		for _, file := range files {
			if root, _ := of(d, d.path(file), dataRootOf); root != "" {
				return root
			}
		}
	}
	return ""
}

// dataRoot is how a line gives the flag, in a unit or in DOCKER_OPTS.
var dataRoot = regexp.MustCompile(`(?m)^(?:[^#;\n]*[\s"'])?(?:--data-root|--graph|-g)(?:=|\s+)["']?([^"'\s\\]+)`)

func dataRootOf(text []byte) (string, error) {
	if match := dataRoot.FindSubmatch(text); match != nil {
		return string(match[1]), nil
	}
	return "", nil
}

// storage reads what podman and CRI-O keep: names in one file, specifications
// in one for each container.
func (d *disk) storage() []Container {
	var all []Container
	for _, root := range d.storageRoots() {
		for _, driver := range d.names(d.path(root)) { // such as overlay-containers, vfs-containers
			if !strings.HasSuffix(driver, "-containers") {
				continue
			}
			dir := d.path(root, driver)
			sure := true
			for _, list := range []string{"containers.json", "volatile-containers.json"} {
				listed, listSure := of(d, filepath.Join(dir, list), listedNames)
				all = append(all, listed...)
				sure = sure && listSure
			}
			for _, id := range d.names(dir) {
				if !hexID.MatchString(id) {
					continue
				}
				c, specSure := of(d, filepath.Join(dir, id, "userdata/config.json"), d.storageSpec)
				c.ID, c.Unsure = id, !specSure || !sure
				c.Engine = "podman" // or CRI-O, which names its cgroups after itself
				all = append(all, c)
			}
		}
	}
	return all
}

// listedNames takes a list of containers/storage: containers.json, or
// volatile-containers.json for those that go with their end.
func listedNames(text []byte) ([]Container, error) {
	listed, err := unmarshal[[]struct {
		ID    string
		Names []string
	}](text)
	var all []Container
	for _, one := range listed {
		c := Container{ID: one.ID}
		if len(one.Names) > 0 {
			c.Name = one.Names[0]
		}
		all = append(all, c)
	}
	return all, err
}

// storageRoots are the directories of containers/storage.
func (d *disk) storageRoots() []string {
	type config struct {
		Storage struct {
			GraphRoot string `toml:"graphroot"`
			RunRoot   string `toml:"runroot"`
		} `toml:"storage"`
	}
	conf, _ := of(d, d.path("etc/containers/storage.conf"), func(text []byte) (c config, err error) {
		return c, toml.Unmarshal(text, &c)
	})
	return []string{
		cmp.Or(conf.Storage.GraphRoot, "var/lib/containers/storage"),
		cmp.Or(conf.Storage.RunRoot, "run/containers/storage"),
	}
}

// containerdStates are where containerd keeps its tasks: as its package has it, as
// Docker, k3s and RKE2, k0s and MicroK8s start their own.
var containerdStates = []string{
	"run/containerd", "run/docker/containerd/daemon", "run/k3s/containerd", "run/k0s/containerd",
	"var/snap/microk8s/common/run/containerd",
}

// containerd reads the bundles of its tasks: one directory for each of its
// namespaces, "k8s.io" for Kubernetes, "moby" for Docker.
func (d *disk) containerd() []Container {
	config, _ := of(d, d.path("etc/containerd/config.toml"), func(text []byte) (c struct {
		State string `toml:"state"`
	}, err error) {
		return c, toml.Unmarshal(text, &c)
	})
	states := containerdStates
	if state := strings.Trim(config.State, "/"); state != "" && !slices.Contains(states, state) {
		states = append(slices.Clip(states), state)
	}
	var all []Container
	for _, state := range states {
		dir := d.path(state, "io.containerd.runtime.v2.task")
		for _, namespace := range d.names(dir) {
			parse := d.taskSpec
			switch namespace {
			case "k8s.io":
				parse = d.kubernetesSpec
			case "moby":
				parse = d.spec
			}
			for _, id := range d.names(filepath.Join(dir, namespace)) {
				c, sure := of(d, filepath.Join(dir, namespace, id, "config.json"), parse)
				c.ID, c.Engine, c.Unsure = id, "containerd", !sure
				all = append(all, c)
			}
		}
	}
	return all
}

// spec takes an OCI specification. Its annotations tell nothing of who the
// container is: users and images add to them.
func (d *disk) spec(text []byte) (Container, error) {
	c, _, err := d.parse(text)
	return c, err
}

// ociSpec is what is read of an OCI specification. Most of one is the list of system calls.
type ociSpec struct {
	Annotations picked `json:"annotations"`
	Linux       *struct {
		CgroupsPath string `json:"cgroupsPath"`
		Resources   *struct {
			BlockIO *struct {
				Weight *uint16 `json:"weight"`
			} `json:"blockIO"`
		} `json:"resources"`
	} `json:"linux"`
}

// parse takes a specification, with those of its annotations that rules or the caller want.
func (d *disk) parse(text []byte, wanted ...string) (c Container, annotations map[string]string, err error) {
	var spec ociSpec
	spec.Annotations.want = func(key string) bool { return slices.Contains(wanted, key) || d.keep != nil && d.keep(key) }
	if err := json.Unmarshal(text, &spec); err != nil {
		return c, nil, err
	}
	c = Container{SpecRead: true, Annotations: d.kept(spec.Annotations.all)}
	if linux := spec.Linux; linux != nil {
		c.Cgroup = groupOf(linux.CgroupsPath)
		if r := linux.Resources; r != nil && r.BlockIO != nil && r.BlockIO.Weight != nil {
			c.Weight = inRange(int(*r.BlockIO.Weight))
		}
	}
	return c, spec.Annotations.all, nil
}

// taskSpec takes a specification of one of containerd's clients. nerdctl writes
// the name that its user gave.
func (d *disk) taskSpec(text []byte) (Container, error) {
	const name = "nerdctl/name"
	c, annotations, err := d.parse(text, name)
	c.Name = annotations[name]
	return c, err
}

// kubernetesSpec takes a specification that containerd made for Kubernetes. It
// writes these keys after those that it passes on from a pod.
func (d *disk) kubernetesSpec(text []byte) (Container, error) {
	const (
		prefix                          = "io.kubernetes.cri."
		name, namespace, pod, uid, kind = prefix + "container-name", prefix + "sandbox-namespace", prefix + "sandbox-name", prefix + "sandbox-uid", prefix + "container-type"
	)
	c, annotations, err := d.parse(text, name, namespace, pod, uid, kind)
	c.is(identity{
		name: annotations[name], namespace: annotations[namespace], pod: annotations[pod], podUID: annotations[uid],
		sandbox: annotations[kind] == "sandbox",
	})
	return c, err
}

// storageSpec takes a specification of podman or CRI-O. CRI-O writes the labels of
// Kubernetes last, over whatever annotations a pod has.
func (d *disk) storageSpec(text []byte) (Container, error) {
	const (
		prefix                          = "io.kubernetes."
		name, namespace, pod, uid, kind = prefix + "container.name", prefix + "pod.namespace", prefix + "pod.name", prefix + "pod.uid", prefix + "cri-o.ContainerType"
		// CRI-O has the container's own labels and annotations as JSON besides.
		labels, own = prefix + "cri-o.Labels", prefix + "cri-o.Annotations"
	)
	c, annotations, err := d.parse(text, name, namespace, pod, uid, kind, labels, own)
	c.asCRIO = identity{
		name: annotations[name], namespace: annotations[namespace], pod: annotations[pod], podUID: annotations[uid],
		sandbox: annotations[kind] == "sandbox",
	}
	c.Labels = d.kept(pickedFrom(annotations[labels], d.keep))
	c.Annotations = merged(c.Annotations, d.kept(pickedFrom(annotations[own], d.keep)))
	return c, err
}

// inRange is a weight that engines take, 0 for any other number.
func inRange(n int) int {
	if n < 0 || n > weight.OCIMax {
		return 0
	}
	return n
}
