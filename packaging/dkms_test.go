// SPDX-License-Identifier: MIT

package packaging

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/must"
)

// DKMS builds modules with the compiler that the kernel was built with.
func TestModulesAreBuiltAsTheKernelWas(t *testing.T) {
	script, err := filepath.Abs("dkms-make")
	must.OK(t, err)
	for config, want := range map[string]bool{"CONFIG_CC_IS_GCC=y\n": false, "CONFIG_CC_IS_GCC=y\n# CONFIG_CC_IS_CLANG is not set\n": false, "CONFIG_CC_IS_CLANG=y\n": true} {
		dir := t.TempDir()
		put := func(name, text string, mode os.FileMode) {
			t.Helper()
			put(t, filepath.Join(dir, name), text, mode)
		}
		// Both tell what they are called with.
		put("bin/make", "#!/bin/sh\necho make \"$@\"\n", 0o755)
		put("bin/isolio", "#!/bin/sh\n", 0o755)
		put("tree/vmlinux", "", 0o644)
		put("tree/include/config/auto.conf", config, 0o644)
		put("src/kyber-fairness/kyber-fairness-iosched.ko", "", 0o644)
		cmd := exec.Command("sh", script, "6.99-other", filepath.Join(dir, "tree"), "1.0")
		cmd.Dir = filepath.Join(dir, "src")
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		if !strings.Contains(string(said), "make -C "+filepath.Join(dir, "tree")) || strings.Contains(string(said), " LLVM=1 ") != want {
			t.Errorf("of %q: %s", config, said)
		}
	}
}

// put writes a file, in a directory that need not be there.
func put(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.OK(t, os.WriteFile(file, []byte(text), mode))
}

// reader reads dkms.conf as DKMS does: asked for kernel $1, it reads the file for kernel $2.
// DKMS 3.0 reads it for no kernel, or for any that has the modules, to see AUTOINSTALL.
const reader = `
safe_source() { ( . "$1"; echo "kernels=$BUILD_EXCLUSIVE_KERNEL autoinstall=$AUTOINSTALL" ) }
read_conf() { local kernelver=$1; kernel_source_dir=$modules/$1/build; safe_source "$conf"; }
kernelver=($1)
read_conf "$2"
`

// A kernel without BTF is skipped, also if another one is there; one with BTF that cannot be
// built for is not.
func TestKernelWithoutBTFIsSkipped(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"dkms-make", "dkms.conf"} {
		text, err := os.ReadFile(name)
		must.OK(t, err)
		put(t, filepath.Join(dir, "src", name), string(text), 0o755)
	}
	const none, has, old = "6.99-none", "6.99-has", "6.99-removed" // the last one has no headers
	put(t, filepath.Join(dir, "modules", none, "build/include/x"), "", 0o644)
	put(t, filepath.Join(dir, "modules", has, "build/include/x"), "", 0o644)
	put(t, filepath.Join(dir, "modules", has, "build/vmlinux"), "", 0o644)
	run := func(name string, args ...string) (stdout, stderr string, code int) {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = filepath.Join(dir, "src")
		cmd.Env = append(os.Environ(), "modules="+filepath.Join(dir, "modules"), "conf="+filepath.Join(dir, "src/dkms.conf"))
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return string(out), string(exit.Stderr), exit.ExitCode()
		}
		must.OK(t, err)
		return string(out), "", 0
	}

	const skip, build = "kernels=^$ autoinstall=\n", "kernels= autoinstall=yes\n"
	for _, tt := range []struct{ asked, read, want string }{
		{none, none, skip}, {none, "", skip}, {none, has, skip},
		{has, has, build}, {has, "", build}, {has, none, build}, {old, old, build}, {"", "", build},
	} {
		if got, said, code := run("bash", "-c", reader, "dkms", tt.asked, tt.read); got != tt.want || code != 0 {
			t.Errorf("DKMS, asked for %q, reads for %q: %q, want %q: %s", tt.asked, tt.read, got, tt.want, said)
		}
	}

	for release, want := range map[string]int{none: 77, has: 127} {
		tree := filepath.Join(dir, "modules", release, "build")
		t.Setenv("PATH", filepath.Join(dir, "bin")+":/usr/bin:/bin")
		put(t, filepath.Join(dir, "bin/isolio"), "#!/bin/sh\nexit 127\n", 0o755)
		_, said, code := run("sh", "dkms-make", release, tree, "1.0")
		if code != want || strings.Contains(said, "kernel "+release+" is skipped: ") != (want == 77) {
			t.Errorf("dkms-make for %s: exits with %d, want %d: %s", release, code, want, said)
		}
	}
}
