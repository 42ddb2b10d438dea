// SPDX-License-Identifier: MIT

package target

import (
	"reflect"
	"testing"

	"isolio/internal/host/state"
	"isolio/internal/must"
)

// A pod is known from the moment that its cgroup is there, with or without a cgroup
// of its sandbox, and by the sandbox that was told last.
func TestReport(t *testing.T) {
	const slice = "kubepods-burstable-pod11111111_1111_1111_1111_111111111111.slice"
	const pod = "kubepods.slice/kubepods-burstable.slice/" + slice
	r := &state.PodReport{Engine: "cri-o", Pods: []state.ReportedPod{
		{ID: id("2"), UID: "1", Namespace: "shop", Name: "cart", CgroupParent: slice, Annotations: map[string]string{"a": "old"}},
		{
			ID: id("1"), UID: "1", Namespace: "shop", Name: "cart", CgroupParent: slice, Annotations: map[string]string{"a": "new"}, Labels: map[string]string{"l": "1"},
			Containers: []state.ReportedContainer{{ID: id("3"), Name: "db", CgroupsPath: slice + ":crio:" + id("3"), Annotations: map[string]string{"b": "own"}}},
		},
		{ID: id("4"), UID: "2", Namespace: "shop", Name: "evil", CgroupParent: "../../" + pod},
		{ID: id("5"), UID: "3", Namespace: "shop", Name: "elsewhere", CgroupParent: "/system.slice"},
		{ID: id("6"), UID: "4", Namespace: "shop", Name: "gone", CgroupParent: "kubepods-pod22222222_2222_2222_2222_222222222222.slice"},
	}}
	f := &Finder{Root: t.TempDir()}
	f.Keep(func(string) bool { return true })
	f.Tell(r)
	list := func(groups ...string) []Container {
		t.Helper()
		all, err := f.List(append([]string{"system.slice", "kubepods.slice"}, groups...))
		must.OK(t, err)
		return all
	}
	if got := list(); len(got) != 0 {
		t.Errorf("before the pod's cgroup: %+v", got)
	}
	sandbox := Container{
		ID: id("1"), Engine: "cri-o", Namespace: "shop", Pod: "cart", PodUID: "1", Sandbox: true, Cgroup: pod + "/" + id("1"),
		Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "new"},
	}
	if got := list(pod); len(got) != 1 || !reflect.DeepEqual(got[0], sandbox) || got[0].PodGroup() != pod {
		t.Errorf("the pod alone: %+v", got)
	}
	// Its own cgroup is there, whatever its name.
	sandbox.Cgroup = pod + "/crio-" + id("1") + ".scope"
	if got := list(pod, sandbox.Cgroup); len(got) != 1 || !reflect.DeepEqual(got[0], sandbox) {
		t.Errorf("the sandbox: %+v", got)
	}
	db := Container{
		ID: id("3"), Name: "db", Engine: "cri-o", Namespace: "shop", Pod: "cart", PodUID: "1", Cgroup: pod + "/crio-" + id("3") + ".scope",
		Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "new", "b": "own"},
	}
	if got := list(pod, db.Cgroup); len(got) != 1 || !reflect.DeepEqual(got[0], db) {
		t.Errorf("a container: %+v", got)
	}
	// The file tells the same, until there is another report in its place.
	must.OK(t, r.Write(f.Root))
	f.Tell(&state.PodReport{})
	if got := list(pod, db.Cgroup); len(got) != 1 || got[0].Name != "" {
		t.Errorf("another report: %+v", got)
	}
	f.Tell(nil)
	if got := list(pod, db.Cgroup); len(got) != 1 || !reflect.DeepEqual(got[0], db) {
		t.Errorf("from the file: %+v", got)
	}
	f.Keep(func(key string) bool { return key == "b" })
	if got := list(pod, db.Cgroup); len(got) != 1 || len(got[0].Annotations) != 1 || got[0].Labels == nil || len(got[0].Labels) != 0 {
		t.Errorf("one key: %+v", got)
	}
}
