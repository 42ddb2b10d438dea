// SPDX-License-Identifier: MIT

package vmtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Root is a root whose /lib, /lib64 and /bin are links below /usr, one
// absolute, as Debian has it.
func Root(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"usr/bin", "usr/lib/x86_64-linux-gnu/ceph", "usr/lib64"} {
		must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	must(t, os.Symlink("usr/lib", filepath.Join(root, "lib")))
	must(t, os.Symlink("/usr/lib64", filepath.Join(root, "lib64")))
	must(t, os.Symlink("usr/bin", filepath.Join(root, "bin")))
	return root
}

// ModuleRoot is a root with four stock modules and one built in.
func ModuleRoot(t *testing.T) string {
	t.Helper()
	root := Root(t)
	dir := filepath.Join(root, "usr/lib/modules/6.1-test")
	must(t, os.MkdirAll(dir, 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "modules.dep"), []byte(""+
		"kernel/block/bfq.ko:\n"+
		"kernel/block/kyber-iosched.ko.xz:\n"+
		"kernel/fs/configfs.ko:\n"+
		"kernel/lib/base.ko:\n"+
		"kernel/lib/mid.ko: kernel/lib/base.ko\n"+
		"kernel/drivers/null_blk.ko: kernel/lib/mid.ko kernel/fs/configfs.ko kernel/lib/base.ko\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "modules.builtin"), []byte("kernel/block/mq-deadline.ko\n"), 0o644))
	return root
}

// QEMU makes Boot run a shell script in QEMU's place. The script finds the
// serial ports' files in $console and $events, and its pid in $pid's file.
func QEMU(t *testing.T, script string) (init, pid string) {
	t.Helper()
	dir := t.TempDir()
	pid = filepath.Join(dir, "pid")
	qemu := filepath.Join(dir, "qemu")
	must(t, os.WriteFile(qemu, fmt.Appendf(nil, `#!/bin/sh
case $1 in --version) echo "QEMU emulator version 10.0.2"; exit;; esac
while [ $# -gt 0 ]; do
	case $1 in -serial) shift; if [ -z "$console" ]; then console=${1#file:}; else events=${1#file:}; fi;; esac
	shift
done
echo $$ >%s
event() { echo "$1" >>"$events"; }
%s
`, pid, script), 0o755))
	t.Setenv("ISOLIO_QEMU", qemu)
	t.Setenv("TMPDIR", filepath.Join(dir, "tmp"))
	must(t, os.Mkdir(filepath.Join(dir, "tmp"), 0o755))
	t.Cleanup(func() {
		left, err := os.ReadDir(filepath.Join(dir, "tmp"))
		if err != nil || len(left) != 0 {
			t.Errorf("temporary files are left: %v %v", left, err)
		}
	})
	init = filepath.Join(dir, "init")
	must(t, os.WriteFile(init, []byte("init"), 0o755))
	return init, pid
}
