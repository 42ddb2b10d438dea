// SPDX-License-Identifier: MIT

package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// FuzzFiles reads the kernel's files of a cgroup, and finds the tree in the list of
// mounts, whose directories containers choose. An error names the file.
func FuzzFiles(f *testing.F) {
	f.Add("8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n", "8:0 enable=1 ctrl=user\n",
		"36 35 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	f.Add("8:0\n\n 8:1 rbytes=x", "\n", "36 35 0:30 / - cgroup2")
	root := f.TempDir()
	for _, dir := range []string{"proc/self", "sys/fs/cgroup/a"} {
		must.OK(f, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	usual := Tree{Root: filepath.Join(root, "sys/fs/cgroup")}
	f.Fuzz(func(t *testing.T, stat, qos, mounts string) {
		for name, text := range map[string]string{
			"sys/fs/cgroup/a/io.stat": stat, "sys/fs/cgroup/io.cost.qos": qos, "proc/self/mountinfo": mounts,
		} {
			testtree.File(t, filepath.Join(root, name), text)
		}
		named := func(err error) {
			if err != nil && !strings.Contains(err.Error(), root) {
				t.Errorf("error %q does not name the file", err)
			}
		}
		fuzzlimit.Run(t, uint64(16<<20+2000*(len(stat)+len(qos)+len(mounts))), func() {
			_, err := usual.IOStats("a")
			named(err)
			_, err = usual.IOCost()
			named(err)
			tree, err := Find(root)
			named(err)
			if !strings.HasPrefix(tree.Root, root) {
				t.Errorf("the tree is at %q, not below %q", tree.Root, root)
			}
		})
	})
}
