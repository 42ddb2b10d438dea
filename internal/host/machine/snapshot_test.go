// SPDX-License-Identifier: MIT

package machine

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/policy"
	"isolio/internal/host/rule"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// What follows from the rules is that of the files when the machine was read, not of later ones.
func TestSnapshot(t *testing.T) {
	root := testtree.New(t, map[string]string{
		"etc/isolio.toml":                       "[[rule]]\nunit = \"a.service\"\nweight = 300\n",
		"sys/fs/cgroup/cgroup.controllers":      "io\n",
		"sys/fs/cgroup/cgroup.subtree_control":  "io\n",
		"sys/fs/cgroup/a.service/cgroup.events": "",
		"sys/block/.keep":                       "",
	})
	s, err := Read(root)
	if err != nil || s.BadRules != nil {
		t.Fatalf("%v, %v", err, s.BadRules)
	}
	must.OK(t, os.Remove(filepath.Join(root, "etc/isolio.toml")))
	rules, err := s.Policy()
	must.OK(t, err)
	wants, _, err := rules.Wants("a.service", s.Tree.Weights)
	if err != nil || wants[policy.EveryDisk].Weight != 300 {
		t.Errorf("%+v, %v", wants, err)
	}
}

// Rules that cannot be read, a damaged file of raised weights and a machine without cgroups are told
// apart, and cost a caller that needs none of them nothing.
func TestBadSnapshot(t *testing.T) {
	s, err := Read(testtree.New(t, map[string]string{"etc/isolio.toml": "[[rule]]\n", "run/isolio/held.json": "{"}))
	if failure.Code(err) != failure.Unsupported || s.BadRules == nil {
		t.Errorf("%v, %v", err, s.BadRules)
	}
	if _, err := s.Policy(); err == nil {
		t.Error("no error of a damaged file")
	}
}

// A rule names disks by what they are: it is for each of these that has the scheduler.
func TestSharingDisks(t *testing.T) {
	root := testtree.New(t, map[string]string{
		"sys/block/sda/dev": "8:0\n", "sys/block/sda/size": "8\n", "sys/block/sda/device/model": "ST4000\n", "sys/block/sda/queue/scheduler": "[kyber-fairness]\n",
		"sys/block/sdb/dev": "8:16\n", "sys/block/sdb/size": "8\n", "sys/block/sdb/device/model": "ST4000\n", "sys/block/sdb/queue/scheduler": "[kyber-fairness]\n",
		"sys/block/sdc/dev": "8:32\n", "sys/block/sdc/size": "8\n", "sys/block/sdc/device/model": "ST4000\n", "sys/block/sdc/queue/scheduler": "[none] kyber-fairness\n",
		"sys/block/sdc/device/wwid": "naa.3\n",
	})
	disks, err := SharingDisks(block.System{Root: root}, []rule.Rule{{Device: "sdb"}, {Device: "model:ST*"}, {Device: "wwn:0x3"}})
	want := policy.DiskNumbers{"sda": {"8:0"}, "sdb": {"8:16"}, "model:ST*": {"8:0", "8:16"}}
	if err != nil || !reflect.DeepEqual(disks, want) {
		t.Errorf("%v, %v, want %v", disks, err, want)
	}
}
