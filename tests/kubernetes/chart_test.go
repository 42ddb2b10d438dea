// SPDX-License-Identifier: MIT

// Package kubernetes tests what is given to a cluster: the chart, the manifest that is
// made of it, and the examples of the documentation. It is a module of its own, so that
// Helm and the API server's libraries are not among the product's.
package kubernetes

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

var update = flag.Bool("update", false, "write the manifest")

const (
	chart    = "../../deploy/helm/isolio"
	manifest = "../../deploy/kubernetes/isolio.yaml"
)

// values are of a chart's user.
type values = map[string]any

// everything has all that the chart can make.
var everything = values{
	"quota":      values{"shop": 20},
	"limits":     values{"maxWeight": 300, "namespaces": values{"batch": 50, "shop": 500}, "maxShare": 200, "shares": values{"shop": 600}},
	"monitoring": values{"podMonitor": true, "rules": true, "dashboard": true, "labels": values{"release": "prometheus"}},
	"image":      values{"repository": "registry.example.com/isolio", "digest": "sha256:" + strings.Repeat("0", 64)},
	"disks":      []any{"nvme0n1", "serial:S4EMNX0"},

	"diskShareClasses": true,
	"networkPolicy":    values{"enabled": true, "from": []any{monitors}},
}

// monitors are the pods of a namespace, for a NetworkPolicy.
var monitors = values{"namespaceSelector": values{"matchLabels": values{"kubernetes.io/metadata.name": "monitoring"}}}

// render is the chart with values, a document each; an error is what the user is told.
func render(t *testing.T, v values) ([]string, error) {
	t.Helper()
	return renderFor(t, v, "v1.36.0")
}

// renderFor is render for a cluster of a version.
func renderFor(t *testing.T, v values, version string) ([]string, error) {
	t.Helper()
	files, err := filesOf(t, v, version, common.ReleaseOptions{IsInstall: true})
	if err != nil {
		return nil, err
	}
	var docs []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, doc := range regexp.MustCompile(`(?m)^---$`).Split(files[name], -1) {
			if strings.TrimSpace(doc) != "" {
				docs = append(docs, strings.TrimSpace(doc)+"\n")
			}
		}
	}
	return docs, nil
}

// filesOf are the chart's templates with values, by their names.
func filesOf(t *testing.T, v values, version string, release common.ReleaseOptions) (map[string]string, error) {
	t.Helper()
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	known, err := common.ParseKubeVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	release.Name, release.Namespace = "isolio", "isolio-system"
	all, err := util.ToRenderValues(c, v, release, &common.Capabilities{KubeVersion: *known})
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

func rendered(t *testing.T, v values) []runtime.Object {
	t.Helper()
	docs, err := render(t, v)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, strings.Join(docs, "---\n"))
}

// foreign are kinds of which this module has no types.
var foreign = []string{"PodMonitor", "PrometheusRule", "Module", "CustomResourceDefinition", "DiskShareClass"}

// objects reads documents strictly: a field that Kubernetes does not know is an error.
func objects(t *testing.T, text string) []runtime.Object {
	t.Helper()
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	docs := yaml.NewYAMLReader(newLines(text))
	var all []runtime.Object
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &u.Object); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		if u.Object == nil {
			continue
		}
		if slices.Contains(foreign, u.GetKind()) {
			all = append(all, u)
			continue
		}
		object, _, err := strict.Decode(doc, nil, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		all = append(all, object)
	}
}

func find[T runtime.Object](t *testing.T, all []runtime.Object) T {
	t.Helper()
	for _, o := range all {
		if found, ok := o.(T); ok {
			return found
		}
	}
	var none T
	t.Fatalf("no %T", none)
	return none
}

func TestLint(t *testing.T) {
	for name, v := range map[string]values{"as it is": nil, "everything": everything, "before claims": {"extendedResource": true}} {
		for _, m := range lint.RunAll(chart, v, "isolio-system").Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

// What a user may apply without Helm is what the chart makes.
func TestManifest(t *testing.T) {
	docs, err := render(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := `# SPDX-License-Identifier: MIT
# Made of the chart in deploy/helm/isolio with its own values: make doc.
apiVersion: v1
kind: Namespace
metadata:
  name: isolio-system
  labels:
    # Directories of the node are mounted, and the init container loads a module.
    pod-security.kubernetes.io/enforce: privileged
---
` + strings.Join(docs, "---\n")
	text = strings.ReplaceAll(text, "app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")
	same(t, manifest, text)
	objects(t, text)
}

// With rules and dashboards, those of weights and those of promises come.
func TestMonitoring(t *testing.T) {
	groups := map[string]bool{}
	var titles []string
	for _, o := range rendered(t, everything) {
		switch o := o.(type) {
		case *unstructured.Unstructured:
			all, _, err := unstructured.NestedSlice(o.Object, "spec", "groups")
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range all {
				groups[g.(map[string]any)["name"].(string)] = true
			}
		case *core.ConfigMap:
			for file, text := range o.Data {
				var board struct{ Title string }
				if strings.HasSuffix(file, ".json") {
					if err := yaml.Unmarshal([]byte(text), &board); err != nil {
						t.Fatalf("%s: %v", file, err)
					}
					titles = append(titles, board.Title)
				}
			}
		}
	}
	slices.Sort(titles)
	if !groups["isolio.alerts"] || !groups["isolio-promises"] || !slices.Equal(titles, []string{"isolio: disks by weight", "isolio: promises"}) {
		t.Errorf("groups of rules %v, dashboards %q", groups, titles)
	}
}

func same(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is another one than is made now (%v): make doc", file, err)
	}
}

// Every value that the schema does not know is refused, with its name.
func TestBadValues(t *testing.T) {
	for _, tt := range []struct {
		v    values
		want string
	}{
		{values{"disk": "sda"}, "disk"},
		{values{"disks": []any{"/dev/sda"}}, "disks"},
		{values{"limits": values{"maxWeight": 20000}}, "maxWeight"},
		{values{"limits": values{"namespaces": values{"shop": "many"}}}, "shop"},
		{values{"modules": values{"mode": "build"}}, "mode"},
		{values{"image": values{"repository": "x", "digest": "latest"}}, "digest"},
		{values{"daemon": values{"metricsPort": 0}}, "metricsPort"},
		{values{"diskShareClasses": "yes"}, "diskShareClasses"},
		{values{"kubeletDir": "/" + strings.Repeat("k", 56)}, "kubeletDir"},
		{values{"kubeletDir": "/var/lib, /kubelet"}, "kubeletDir"},
		{values{"nriSocketDir": "/run/nri}"}, "nriSocketDir"},
		{values{"disks": []any{"serial:A1", "serial-a1"}}, "disks: serial-a1: its container enable-serial-a1 is that of another disk as well"},
		{values{"daemon": values{"metricsPort": 9106}}, "daemon.metricsPort: 9106; allowed: another port than node.metricsPort"},
		{values{"node": values{"metricsPort": 9107}}, "node.metricsPort: 9107; allowed: another port: isolio-node tells kubectl isolio of pods there"},
		{values{"networkPolicy": values{"from": []any{values{}}}}, "from"},
		{values{"quota": values{"Shop": 3}}, "Shop"},
		{values{"quota": values{"shop": 3}, "extendedResource": true}, "quota: counts disks of claims, and with extendedResource=true there are no claims; leave it out, and limit shares by a ResourceQuota of requests.isolio.dev/disk-share"},
		{values{"seLinuxOptions": values{"domain": "spc_t"}}, "domain"},
		{values{"monitoring": values{"podMonitor": true}}, "monitoring.podMonitor: true; allowed: with the pods of Prometheus in networkPolicy.from"},
	} {
		if _, err := render(t, tt.v); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.v, err, tt.want)
		}
	}
}

// writesSys is whether a container has the node's /sys to write to.
func writesSys(spec *core.PodSpec, c *core.Container) bool {
	for _, m := range c.VolumeMounts {
		for _, v := range spec.Volumes {
			if m.MountPath == "/sys" && !m.ReadOnly && v.Name == m.Name {
				return v.HostPath != nil && v.HostPath.Path == "/sys"
			}
		}
	}
	return false
}

// What runs for good has no privilege; only what loads a module has, and ends.
func TestPrivileges(t *testing.T) {
	for name, v := range map[string]values{"as it is": nil, "everything": everything, "before claims": {"extendedResource": true}, "modules of KMM": {"modules": values{"mode": "present"}}} {
		spec := find[*apps.DaemonSet](t, rendered(t, v)).Spec.Template.Spec
		if spec.HostNetwork || spec.HostPID || spec.HostIPC {
			t.Errorf("%s: namespaces of the host", name)
		}
		if len(spec.Containers) != 2 {
			t.Errorf("%s: %d containers", name, len(spec.Containers))
		}
		for i := range spec.Containers {
			c := &spec.Containers[i]
			s := c.SecurityContext
			if s.Privileged != nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) || s.Capabilities.Add != nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
				t.Errorf("%s: %s: %+v", name, c.Name, s)
			}
		}
		for i := range spec.InitContainers {
			if c := &spec.InitContainers[i]; !slices.Equal(c.Command[:2], []string{"/usr/bin/isolio", "enable"}) || !*c.SecurityContext.Privileged {
				t.Errorf("%s: %+v", name, c)
			} else if !writesSys(&spec, c) {
				t.Errorf("%s: %s sets schedulers in a /sys of the pod's own, which is read-only", name, c.Name)
			}
		}
	}
	if n := len(find[*apps.DaemonSet](t, rendered(t, values{"daemon": values{"enabled": false}})).Spec.Template.Spec.Containers); n != 1 {
		t.Errorf("daemon.enabled=false: %d containers", n)
	}
}

// For disks that come later there is one container more, which stays and has all privileges.
func TestDisksThatComeLater(t *testing.T) {
	spec := find[*apps.DaemonSet](t, rendered(t, values{"followDisks": true})).Spec.Template.Spec
	if len(spec.Containers) != 3 {
		t.Fatalf("%d containers", len(spec.Containers))
	}
	c, enable := &spec.Containers[2], &spec.InitContainers[0]
	want := []string{"/usr/bin/isolio", "enable", "--all", "--follow", "--module", "/opt/lib/modules", "--error-file", "/run/isolio/enable/enable-all.json"}
	if !slices.Equal(c.Command, want) {
		t.Errorf("it runs %q, want %q", c.Command, want)
	}
	if got := slices.DeleteFunc(slices.Clone(c.Command), func(arg string) bool { return arg == "--follow" }); !slices.Equal(got, enable.Command) {
		t.Errorf("the init container runs %q", enable.Command)
	}
	if !*c.SecurityContext.Privileged || !writesSys(&spec, c) {
		t.Errorf("%+v: it cannot set schedulers", c)
	}
	for _, v := range []values{{"disks": []any{"sda"}}, {"disks": []any{}}, {"modules": values{"mode": "off"}}} {
		v["followDisks"] = true
		if _, err := render(t, v); err == nil || !strings.Contains(err.Error(), "followDisks: true; allowed: with disks: [all]") {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// Disks are enabled wherever the module comes from, but where nodes do that themselves. The image has no
// modprobe: enable loads an installed module of the node's directory itself.
func TestWhereModulesComeFrom(t *testing.T) {
	for mode, from := range map[string]string{"load": "/opt/lib/modules", "present": "/lib/modules", "off": ""} {
		spec := find[*apps.DaemonSet](t, rendered(t, values{"modules": values{"mode": mode}, "disks": []any{"sda"}})).Spec.Template.Spec
		var want, got []string
		if from != "" {
			want = []string{"/usr/bin/isolio", "enable", "sda", "--module", from, "--error-file", "/run/isolio/enable/enable-sda.json"}
		}
		for i := range spec.InitContainers {
			got = append(got, spec.InitContainers[i].Command...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("modules.mode=%s: %q, want %q", mode, got, want)
		}
		if reads := slices.Contains(spec.Containers[1].Command, "--failures=/run/isolio/enable/enable-sda.json"); reads != (from != "") {
			t.Errorf("modules.mode=%s: failures are told: %v", mode, reads)
		}
	}
}

// hostMount is where a container has a directory or file of the node's, and of which type that is.
func hostMount(spec *core.PodSpec, c *core.Container, at string) (mount core.VolumeMount, kind core.HostPathType, has bool) {
	for _, v := range spec.Volumes {
		if v.HostPath == nil || v.HostPath.Path != at {
			continue
		}
		for _, m := range c.VolumeMounts {
			if m.Name == v.Name {
				if v.HostPath.Type != nil {
					kind = *v.HostPath.Type
				}
				return m, kind, true
			}
		}
	}
	return mount, kind, false
}

// udev knows the serial numbers of SATA disks, which the kernel does not tell. Each program that is told
// of disks by them reads its database, and a node may have none.
func TestUdevIsMounted(t *testing.T) {
	spec := find[*apps.DaemonSet](t, rendered(t, everything)).Spec.Template.Spec
	all := slices.Concat(spec.InitContainers, spec.Containers)
	if len(all) != 4 {
		t.Errorf("%d containers", len(all))
	}
	for i := range all {
		if m, kind, has := hostMount(&spec, &all[i], "/run/udev/data"); !has || m.MountPath != "/run/udev/data" || !m.ReadOnly || kind != core.HostPathDirectoryOrCreate {
			t.Errorf("%s: %+v, %q", all[i].Name, m, kind)
		}
	}
}

// The container node judges pods by the rules of the daemon that decides: the chart's, or where the
// node's service is that daemon, those of the node, which may have none.
func TestWhoseRulesAreRead(t *testing.T) {
	hasRules := func(all []runtime.Object) bool {
		return slices.ContainsFunc(all, func(o runtime.Object) bool { c, is := o.(*core.ConfigMap); return is && c.Name == "isolio-rules" })
	}
	all := rendered(t, values{"daemon": values{"enabled": false}})
	spec := find[*apps.DaemonSet](t, all).Spec.Template.Spec
	node := spec.Containers[0]
	if slices.ContainsFunc(node.Command, func(arg string) bool { return strings.HasPrefix(arg, "--config") }) || hasRules(all) {
		t.Errorf("the chart's rules, which act nowhere, are read: %q", node.Command)
	}
	for at, want := range map[string]core.HostPathType{"/etc/isolio.toml": core.HostPathFileOrCreate, "/etc/isolio.d": core.HostPathDirectoryOrCreate} {
		if m, kind, has := hostMount(&spec, &node, at); !has || m.MountPath != at || !m.ReadOnly || kind != want {
			t.Errorf("%s: %+v, %q", at, m, kind)
		}
	}
	all = rendered(t, nil)
	spec = find[*apps.DaemonSet](t, all).Spec.Template.Spec
	if !slices.Contains(spec.Containers[1].Command, "--config=/etc/isolio/isolio.toml") || !hasRules(all) {
		t.Errorf("the chart's rules are not read: %q", spec.Containers[1].Command)
	}
	if _, _, has := hostMount(&spec, &spec.Containers[1], "/etc/isolio.toml"); has {
		t.Error("the node's rules are there, and the chart's act")
	}
}

// What runs for good sees no more of the node than this. Below containerd's directory of tasks lie the root
// file systems of all containers of the node, which a container that has the directory may write to: so
// the daemon does without the runtime's files, and the document says that it needs NRI.
func TestWhatIsMounted(t *testing.T) {
	may := []string{"/sys/fs/cgroup", "/run/isolio", "/var/run/nri", "/run/udev/data", "/proc/1/mountinfo", "/var/lib/kubelet/plugins/disk.isolio.dev", "/var/lib/kubelet/plugins_registry"}
	spec := find[*apps.DaemonSet](t, rendered(t, nil)).Spec.Template.Spec
	for i := range spec.Containers {
		for _, v := range spec.Volumes {
			if v.HostPath == nil || slices.Contains(may, v.HostPath.Path) {
				continue
			}
			if _, _, has := hostMount(&spec, &spec.Containers[i], v.HostPath.Path); has {
				t.Errorf("%s has the node's %s", spec.Containers[i].Name, v.HostPath.Path)
			}
		}
	}
	if m, _, _ := hostMount(&spec, &spec.Containers[0], "/var/run/nri"); !m.ReadOnly {
		t.Error("the daemon may put its own socket in place of the runtime's")
	}
	if text := section(t, "## Without NRI"); !strings.Contains(text, "daemon.enabled=false") {
		t.Errorf("the document does not say what to do without NRI where the daemon is the chart's:\n%s", text)
	}
}

// guides is the text of all guides for Kubernetes.
func guides(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../../docs/kubernetes*.md")
	if err != nil || len(files) < 4 {
		t.Fatalf("%q: %v", files, err)
	}
	var all strings.Builder
	for _, file := range files {
		text := read(t, file)
		if n := strings.Count(text, "\n"); n >= 150 {
			t.Errorf("%s has %d lines; a guide has less than 150", file, n)
		}
		all.WriteString(text)
	}
	return all.String()
}

// section is a part of the guides, from a heading to the next one.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(guides(t), "\n"+heading+"\n")
	if !found {
		t.Fatalf("no guide has %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n##")
	return text
}

// The document's commands are all that it takes, and as many as its heading says: a namespace that Helm
// makes has not the label of the one in the manifest.
func TestInstall(t *testing.T) {
	text := section(t, "## Install in four commands")
	commands := regexp.MustCompile(`(?m)^    \S.*$`).FindAllString(strings.SplitN(strings.TrimLeft(text, "\n"), "\n\n", 2)[0], -1)
	if len(commands) != 4 {
		t.Errorf("%d commands: %q", len(commands), commands)
	}
	var labels []string
	for _, o := range objects(t, read(t, manifest)) {
		if space, is := o.(*core.Namespace); is {
			for key, value := range space.Labels {
				labels = append(labels, fmt.Sprintf("kubectl label namespace %s %s=%s", space.Name, key, value))
			}
		}
	}
	if len(labels) != 1 || !strings.Contains(text, "\n    "+labels[0]) {
		t.Errorf("the document does not say %q", labels)
	}
}

// The number that nodes offered stays in their status, and what removes it is told where that may be:
// before claims, and after a change to them.
func TestNotes(t *testing.T) {
	const patch = "kubectl patch node NODE --subresource=status"
	for _, tt := range []struct {
		extended, upgrade, want bool
	}{{true, false, true}, {true, true, true}, {false, false, false}, {false, true, true}} {
		files, err := filesOf(t, values{"extendedResource": tt.extended}, "v1.36.0", common.ReleaseOptions{IsInstall: !tt.upgrade, IsUpgrade: tt.upgrade})
		if err != nil {
			t.Fatal(err)
		}
		text := files["isolio/templates/NOTES.txt"]
		if strings.Contains(text, patch) != tt.want || !strings.Contains(text, "kubectl label namespace isolio-system pod-security.kubernetes.io/enforce=privileged") {
			t.Errorf("%+v:\n%s", tt, text)
		}
	}
	if text := section(t, "## Clusters before 1.34"); !strings.Contains(text, "`extendedResource=false`") {
		t.Errorf("the document does not tell of a change to claims:\n%s", text)
	}
}

// A ResourceQuota counts the devices of each class for itself.
func TestQuota(t *testing.T) {
	hard := find[*core.ResourceQuota](t, rendered(t, everything)).Spec.Hard
	for _, class := range []string{"disk.isolio.dev", "kubelet.disk.isolio.dev"} {
		if n := hard[core.ResourceName(class+".deviceclass.resource.k8s.io/devices")]; n.Value() != 20 {
			t.Errorf("%s: %s", class, n.String())
		}
	}
	for _, file := range []string{"../../docs/kubernetes-claims.md", chart + "/values.yaml", "../../deploy/kubernetes/quota.yaml"} {
		if words := strings.Join(strings.Fields(strings.ReplaceAll(read(t, file), "\n#", "\n")), " "); !strings.Contains(words, "each device class") {
			t.Errorf("%s does not say that the number is for each class", file)
		}
	}
}

// No other pod reaches the names of pods, kubectl isolio finds the port that it forwards, and
// monitoring the others. With a policy, only the peers of the values read metrics.
func TestWhoReadsWhat(t *testing.T) {
	all := rendered(t, everything)
	spec := find[*apps.DaemonSet](t, all).Spec.Template.Spec
	node := spec.Containers[1]
	ports := map[string]int32{}
	for i := range spec.Containers {
		for _, p := range spec.Containers[i].Ports {
			ports[p.Name] = p.ContainerPort
		}
	}
	for _, want := range []string{fmt.Sprintf("--listen=:%d", ports["node-metrics"]), fmt.Sprintf("--listen-pods=127.0.0.1:%d", ports["node-pods"])} {
		if !slices.Contains(node.Command, want) {
			t.Errorf("no %s in %q", want, node.Command)
		}
	}
	policy := find[*network.NetworkPolicy](t, all)
	if !maps.Equal(policy.Spec.PodSelector.MatchLabels, find[*apps.DaemonSet](t, all).Spec.Selector.MatchLabels) || len(policy.Spec.Ingress) != 1 || len(policy.Spec.Ingress[0].From) != 1 {
		t.Fatalf("%+v", policy.Spec)
	}
	for _, p := range policy.Spec.Ingress[0].Ports {
		if ports[p.Port.StrVal] == 0 || p.Port.StrVal == "node-pods" {
			t.Errorf("it lets peers to %s", p.Port)
		}
	}
	for _, v := range []values{nil, {"daemon": values{"enabled": false}}} {
		none := find[*network.NetworkPolicy](t, rendered(t, v))
		if len(none.Spec.Ingress) != 0 || !slices.Equal(none.Spec.PolicyTypes, []network.PolicyType{network.PolicyTypeIngress}) {
			t.Errorf("%v, without peers: %+v", v, none.Spec)
		}
	}
	off := values{"networkPolicy": values{"enabled": false}, "monitoring": values{"podMonitor": true}}
	if slices.ContainsFunc(rendered(t, off), func(o runtime.Object) bool { _, is := o.(*network.NetworkPolicy); return is }) {
		t.Error("there is a policy that is turned off")
	}
}

// Probes are cheap, and have the time in which tests of programs see them answered beside clients that
// hold all the connections that they can.
func TestProbes(t *testing.T) {
	spec := find[*apps.DaemonSet](t, rendered(t, nil)).Spec.Template.Spec
	for i, paths := range [][]string{{"/livez", "/livez"}, {"/healthz", "/livez"}} {
		c := &spec.Containers[i]
		for k, probe := range []*core.Probe{c.ReadinessProbe, c.LivenessProbe} {
			if probe.HTTPGet.Path != paths[k] || probe.TimeoutSeconds != 5 {
				t.Errorf("%s: %+v, %d s, want %s", c.Name, probe.HTTPGet, probe.TimeoutSeconds, paths[k])
			}
		}
	}
}

// Go collects what the container node does not use before the kernel ends it for its limit, in whatever
// unit that is. The daemon has a limit of its own.
func TestMemoryLimit(t *testing.T) {
	for limit, want := range map[string]string{"": "", "192Mi": "181193932", "1Gi": "966367641", "200M": "180000000", "100000000": "90000000", "0.5Gi": ""} {
		v := values{"node": values{"resources": values{"limits": values{"memory": limit}}}}
		if limit == "" {
			v = values{"node": values{"resources": values{"limits": nil}}}
		}
		got := ""
		for _, e := range find[*apps.DaemonSet](t, rendered(t, v)).Spec.Template.Spec.Containers[1].Env {
			if e.Name == "GOMEMLIMIT" {
				got = e.Value
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", limit, got, want)
		}
	}
}

// The program finds kubelet's directory by where the node has that of the plugin, also where it registers
// none, and may then write nothing there. It has no other plugin's directory: below some of these lie the
// volumes of all pods, and a container that has them keeps them mounted after the node has unmounted them.
func TestPluginsAreMounted(t *testing.T) {
	for _, isExtended := range []bool{false, true} {
		spec := find[*apps.DaemonSet](t, rendered(t, values{"extendedResource": isExtended, "kubeletDir": "/var/lib/k0s/kubelet"})).Spec.Template.Spec
		var at []string
		for _, m := range spec.Containers[1].VolumeMounts {
			for _, v := range spec.Volumes {
				if v.Name == m.Name && v.HostPath != nil && v.HostPath.Path == m.MountPath && strings.HasPrefix(m.MountPath, "/var/lib/k0s/kubelet/") {
					at = append(at, m.MountPath)
					if *v.HostPath.Type != core.HostPathDirectoryOrCreate || m.MountPropagation != nil {
						t.Errorf("extendedResource=%v: %s: %s, %+v", isExtended, m.MountPath, *v.HostPath.Type, m)
					}
					if m.ReadOnly != isExtended {
						t.Errorf("extendedResource=%v: %s is read-only: %v", isExtended, m.MountPath, m.ReadOnly)
					}
				}
			}
		}
		want := []string{"/var/lib/k0s/kubelet/plugins/disk.isolio.dev"}
		if !isExtended {
			want = append(want, "/var/lib/k0s/kubelet/plugins_registry")
		}
		if !slices.Equal(at, want) {
			t.Errorf("extendedResource=%v: mounted are %q, want %q", isExtended, at, want)
		}
	}
}

// On nodes with SELinux the containers have a type that may write to cgroups and reach sockets, or
// the one that the values say. Those with all privileges have it anyway.
func TestSELinux(t *testing.T) {
	label := func(v any) values { return values{"seLinuxOptions": v} }
	for _, tt := range []struct {
		v    values
		want *core.SELinuxOptions
	}{
		{nil, &core.SELinuxOptions{Type: "spc_t", Level: "s0"}},
		{label(values{"type": "isolio_t", "level": nil}), &core.SELinuxOptions{Type: "isolio_t"}},
		{label(nil), nil},
	} {
		spec := find[*apps.DaemonSet](t, rendered(t, tt.v)).Spec.Template.Spec
		for i := range spec.Containers {
			got := spec.Containers[i].SecurityContext.SELinuxOptions
			if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
				t.Errorf("%v: %s: %+v, want %+v", tt.v, spec.Containers[i].Name, got, tt.want)
			}
		}
	}
}

// The program that speaks to the API server has its account's token, as client-go expects it. What
// loads a module as root has none, nor has the daemon.
func TestToken(t *testing.T) {
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount"
	for name, v := range map[string]values{"as it is": nil, "everything": everything, "before claims": {"extendedResource": true}} {
		spec := find[*apps.DaemonSet](t, rendered(t, v)).Spec.Template.Spec
		if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
			t.Errorf("%s: Kubernetes mounts a token into each container", name)
		}
		var files []string
		volumes := map[string]bool{}
		for _, v := range spec.Volumes {
			if v.Projected == nil {
				continue
			}
			for _, s := range v.Projected.Sources {
				switch {
				case s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == "":
					volumes[v.Name] = true
					files = append(files, s.ServiceAccountToken.Path)
				case s.ConfigMap != nil && s.ConfigMap.Name == "kube-root-ca.crt":
					files = append(files, s.ConfigMap.Items[0].Path)
				case s.DownwardAPI != nil:
					files = append(files, s.DownwardAPI.Items[0].Path)
				}
			}
		}
		if want := []string{"token", "ca.crt", "namespace"}; !slices.Equal(files, want) {
			t.Errorf("%s: the files are %q, want %q", name, files, want)
		}
		all := slices.Concat(spec.InitContainers, spec.Containers)
		for i := range all {
			has := slices.ContainsFunc(all[i].VolumeMounts, func(m core.VolumeMount) bool {
				return volumes[m.Name] || strings.HasPrefix(m.MountPath, "/var/run/secrets")
			})
			right := slices.ContainsFunc(all[i].VolumeMounts, func(m core.VolumeMount) bool { return volumes[m.Name] && m.MountPath == dir && m.ReadOnly })
			if isNode := all[i].Name == "node"; has != isNode || right != isNode {
				t.Errorf("%s: container %s has the token: %v", name, all[i].Name, has)
			}
		}
	}
}

func roleOf(t *testing.T, all []runtime.Object, name string) *rbac.ClusterRole {
	t.Helper()
	for _, o := range all {
		if role, ok := o.(*rbac.ClusterRole); ok && role.Name == name {
			return role
		}
	}
	t.Fatalf("no role %s", name)
	return nil
}

// The program asks for classes where the chart defines them, and the definition survives the chart.
func TestClassesAreDefined(t *testing.T) {
	for _, isOn := range []bool{false, true} {
		all := rendered(t, values{"diskShareClasses": isOn})
		command := find[*apps.DaemonSet](t, all).Spec.Template.Spec.Containers[1].Command
		isAsked := slices.Contains(command, "--disk-share-classes")
		mayRead := slices.ContainsFunc(roleOf(t, all, "isolio-node").Rules, func(r rbac.PolicyRule) bool { return slices.Contains(r.Resources, "diskshareclasses") })
		isDefined := slices.ContainsFunc(all, func(o runtime.Object) bool {
			u, ok := o.(*unstructured.Unstructured)
			return ok && u.GetName() == "diskshareclasses.isolio.dev" && u.GetAnnotations()["helm.sh/resource-policy"] == "keep"
		})
		if isAsked != isOn || mayRead != isOn || isDefined != isOn {
			t.Errorf("diskShareClasses=%v: asked for %v, may be read %v, defined %v", isOn, isAsked, mayRead, isDefined)
		}
	}
}

// A disk that cannot be enabled keeps no container from running: what fails is written where
// node reads it.
func TestFailuresAreTold(t *testing.T) {
	spec := find[*apps.DaemonSet](t, rendered(t, everything)).Spec.Template.Spec
	var written, read []string
	for i := range spec.InitContainers {
		command := spec.InitContainers[i].Command
		if at := slices.Index(command, "--error-file"); at >= 0 {
			written = append(written, command[at+1])
		}
	}
	for _, arg := range spec.Containers[1].Command {
		if file, ok := strings.CutPrefix(arg, "--failures="); ok {
			read = append(read, file)
		}
	}
	if want := []string{"/run/isolio/enable/enable-nvme0n1.json", "/run/isolio/enable/enable-serial-s4emnx0.json"}; !slices.Equal(written, want) || !slices.Equal(read, want) {
		t.Errorf("written are %q, read are %q, want %q", written, read, want)
	}
}

// Before claims there may be no policies either.
func TestOldClusters(t *testing.T) {
	for version, want := range map[string]bool{"v1.29.4": false, "v1.30.0": true, "v1.33.2-gke.1": true} {
		docs, err := renderFor(t, values{"extendedResource": true}, version)
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(strings.Join(docs, ""), "ValidatingAdmissionPolicy"); has != want {
			t.Errorf("%s: a policy: %v", version, has)
		}
	}
}

// The image runs on Linux alone, and an update may not put two daemons on a node.
func TestNodes(t *testing.T) {
	for _, tt := range []struct {
		v    values
		want map[string]string
	}{
		{nil, map[string]string{"kubernetes.io/os": "linux"}},
		{values{"nodeSelector": values{"kubernetes.io/arch": "amd64"}}, map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
		{values{"nodeSelector": values{"kubernetes.io/os": "windows"}}, map[string]string{"kubernetes.io/os": "linux"}},
	} {
		if got := find[*apps.DaemonSet](t, rendered(t, tt.v)).Spec.Template.Spec.NodeSelector; !maps.Equal(got, tt.want) {
			t.Errorf("%v: %v, want %v", tt.v, got, tt.want)
		}
	}
	strategy := func(surge any) values {
		return values{"updateStrategy": values{"rollingUpdate": values{"maxSurge": surge, "maxUnavailable": 0}}}
	}
	for _, surge := range []any{1, "10%"} {
		if _, err := render(t, strategy(surge)); err == nil || !strings.Contains(err.Error(), "updateStrategy.rollingUpdate.maxSurge: ") || !strings.Contains(err.Error(), "use maxUnavailable") {
			t.Errorf("maxSurge %v: %v", surge, err)
		}
	}
	for _, v := range []values{strategy(0), strategy("0%"), {"updateStrategy": values{"type": "OnDelete", "rollingUpdate": nil}}} {
		if _, err := render(t, v); err != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
}

// No role has a wildcard, a secret, or writes anything but the driver's own.
func TestRoles(t *testing.T) {
	written := map[string][]string{"events": {"create"}, "resourceslices": {"list", "watch", "create", "update", "delete"}, "nodes/status": {"patch"}}
	for name, v := range map[string]values{"as it is": nil, "before claims": {"extendedResource": true}, "classes": {"diskShareClasses": true}} {
		for _, r := range roleOf(t, rendered(t, v), "isolio-node").Rules {
			for _, resource := range r.Resources {
				allowed, isWritten := written[resource]
				if !isWritten {
					allowed = []string{"get"}
				}
				for _, verb := range r.Verbs {
					if !slices.Contains(allowed, verb) || resource == "secrets" || resource == "*" {
						t.Errorf("%s: %s %s", name, verb, resource)
					}
				}
			}
		}
	}
}

// What documents and examples have can be applied.
func TestExamples(t *testing.T) {
	found, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	if err != nil || len(found) < 4 {
		t.Fatalf("%q, %v", found, err)
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(objects(t, string(text))) == 0 {
			t.Errorf("%s has nothing", file)
		}
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch([]byte(guides(t)), -1)
	for _, b := range blocks {
		if bytes.HasPrefix(b[1], []byte("apiVersion:")) {
			objects(t, string(b[1]))
		}
	}
	if len(blocks) == 0 {
		t.Error("the document has no example")
	}
}
