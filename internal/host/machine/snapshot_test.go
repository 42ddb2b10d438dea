// SPDX-License-Identifier: MIT

package machine

import (
	"os"
	"path/filepath"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/host/policy"
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
	if err := os.Remove(filepath.Join(root, "etc/isolio.toml")); err != nil {
		t.Fatal(err)
	}
	rules, err := s.Policy()
	if err != nil {
		t.Fatal(err)
	}
	wants, _, err := rules.Wants("a.service", policy.Read(s.Tree))
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
