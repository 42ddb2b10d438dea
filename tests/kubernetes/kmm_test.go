// SPDX-License-Identifier: MIT

package kubernetes

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// kmmModule has the fields of a Module of kmm.sigs.x-k8s.io/v1beta1 that a manifest may set,
// as KMM's own types name them.
type kmmModule struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ModuleLoader struct {
			Container struct {
				ImagePullPolicy core.PullPolicy `json:"imagePullPolicy,omitempty"`
				Version         string          `json:"version,omitempty"`
				KernelMappings  []struct {
					Regexp         string `json:"regexp,omitempty"`
					Literal        string `json:"literal,omitempty"`
					ContainerImage string `json:"containerImage"`
					Build          *struct {
						BuildArgs           []core.EnvVar              `json:"buildArgs,omitempty"`
						DockerfileConfigMap *core.LocalObjectReference `json:"dockerfileConfigMap"`
						Selector            map[string]string          `json:"selector,omitempty"`
					} `json:"build,omitempty"`
					Sign *struct {
						UnsignedImage string                     `json:"unsignedImage,omitempty"`
						KeySecret     *core.LocalObjectReference `json:"keySecret"`
						CertSecret    *core.LocalObjectReference `json:"certSecret"`
						FilesToSign   []string                   `json:"filesToSign,omitempty"`
					} `json:"sign,omitempty"`
				} `json:"kernelMappings"`
				Modprobe struct {
					ModuleName string   `json:"moduleName"`
					Parameters []string `json:"parameters,omitempty"`
					DirName    string   `json:"dirName,omitempty"`
				} `json:"modprobe"`
			} `json:"container"`
			ServiceAccountName string `json:"serviceAccountName,omitempty"`
		} `json:"moduleLoader"`
		Selector    map[string]string `json:"selector"`
		Tolerations []core.Toleration `json:"tolerations,omitempty"`
	} `json:"spec"`
}

// The manifest for KMM has no field that KMM does not know, none is missing, and what it
// names is there: the ConfigMap with the Dockerfile, and the file to sign where modprobe
// looks for the module.
func TestModuleOfKMM(t *testing.T) {
	all := objects(t, read(t, "../../deploy/kubernetes/kmm-module.yaml"))
	text, err := yaml.Marshal(find[*unstructured.Unstructured](t, all).Object)
	if err != nil {
		t.Fatal(err)
	}
	var m kmmModule
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatal(err)
	}
	c := m.Spec.ModuleLoader.Container
	if m.APIVersion != "kmm.sigs.x-k8s.io/v1beta1" || m.Kind != "Module" || len(m.Spec.Selector) == 0 || len(c.KernelMappings) == 0 || c.Modprobe.ModuleName != "kyber_fairness_iosched" {
		t.Fatalf("%s", text)
	}
	dockerfile := find[*core.ConfigMap](t, all)
	for _, k := range c.KernelMappings {
		if _, err := regexp.Compile(k.Regexp); err != nil || (k.Regexp == "") == (k.Literal == "") || k.ContainerImage == "" {
			t.Errorf("%+v: %v", k, err)
		}
		if k.Build == nil || k.Build.DockerfileConfigMap == nil || k.Build.DockerfileConfigMap.Name != dockerfile.Name {
			t.Errorf("the Dockerfile: %+v", k.Build)
		}
		file := c.Modprobe.DirName + "/lib/modules/${KERNEL_FULL_VERSION}/kyber-fairness-iosched.ko"
		if s := k.Sign; s == nil || s.KeySecret == nil || s.CertSecret == nil || len(s.FilesToSign) != 1 || s.FilesToSign[0] != file {
			t.Errorf("what is signed: %+v", k.Sign)
		}
	}
	// A node that is drained keeps the label below, as long as KMM may load there.
	if !slices.ContainsFunc(m.Spec.Tolerations, func(t core.Toleration) bool {
		return t.Key == core.TaintNodeUnschedulable && t.Operator == core.TolerationOpExists && t.Effect == core.TaintEffectNoSchedule
	}) {
		t.Errorf("on nodes that are drained KMM takes its label: %+v", m.Spec.Tolerations)
	}
	// KMM builds with this argument, and modprobe needs what depmod writes.
	for _, want := range []string{"ARG KERNEL_FULL_VERSION\n", "depmod -b " + c.Modprobe.DirName + " ${KERNEL_FULL_VERSION}", "dkms-make ${KERNEL_FULL_VERSION}"} {
		if !strings.Contains(dockerfile.Data["dockerfile"], want) {
			t.Errorf("the Dockerfile has no %q", want)
		}
	}
}

// With the values that the manifest names, the chart's pods come to a node after KMM has loaded the module
// of the manifest there, and enable the node's disks then.
func TestValuesForKMM(t *testing.T) {
	text := read(t, "../../deploy/kubernetes/kmm-module.yaml")
	var lines []string
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "#   "); ok {
			lines = append(lines, value)
		}
	}
	v := values{}
	if err := yaml.Unmarshal([]byte(strings.Join(lines, "")), &v); err != nil || len(v) == 0 {
		t.Fatalf("%q: %v", lines, err)
	}
	spec := find[*apps.DaemonSet](t, rendered(t, v)).Spec.Template.Spec
	if len(spec.InitContainers) != 1 || !slices.Contains(spec.InitContainers[0].Command, "--all") {
		t.Errorf("no disk is enabled: %+v", spec.InitContainers)
	}
	module := find[*unstructured.Unstructured](t, objects(t, text))
	label := "kmm.node.kubernetes.io/" + module.GetNamespace() + "." + module.GetName() + ".ready"
	if value, has := spec.NodeSelector[label]; !has || value != "" {
		t.Errorf("no %s in %v", label, spec.NodeSelector)
	}
	if doc := section(t, "### Modules"); !strings.Contains(doc, "`modules.mode=present`") || !strings.Contains(doc, "`"+label+"`") {
		t.Errorf("the document does not name the values:\n%s", doc)
	}
}
