// SPDX-License-Identifier: MIT

package guest

import (
	"os"
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// FuzzCgroups reads the kernel's files of a cgroup. An error names the file.
func FuzzCgroups(f *testing.F) {
	f.Add("8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0\n", "file_writeback 4096\n", "1\n77\n")
	f.Add("8:0\n\n 8:1 rbytes=x", "file_writeback x", "0")
	tree := Cgroups{Root: f.TempDir()}
	must.OK(f, os.Mkdir(tree.Path("a"), 0o755))
	f.Fuzz(func(t *testing.T, stat, memory, procs string) {
		for name, text := range map[string]string{"io.stat": stat, "memory.stat": memory, "cgroup.procs": procs} {
			testtree.File(t, tree.Path("a", name), text)
		}
		named := func(err error) {
			if err != nil && !strings.Contains(err.Error(), tree.Root) {
				t.Errorf("error %q does not name the file", err)
			}
		}
		fuzzlimit.Run(t, uint64(16<<20+2000*(len(stat)+len(memory)+len(procs))), func() {
			_, err := tree.Counters("a", "8:0")
			named(err)
			_, err = tree.Writeback("a")
			named(err)
			pids, err := tree.Procs("a")
			named(err)
			for _, pid := range pids {
				if pid <= 1 {
					t.Errorf("process %d would be killed", pid)
				}
			}
		})
	})
}
