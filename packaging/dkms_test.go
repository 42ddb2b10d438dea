// SPDX-License-Identifier: MIT

package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// DKMS builds modules with the compiler that the kernel was built with.
func TestModulesAreBuiltAsTheKernelWas(t *testing.T) {
	script, err := filepath.Abs("dkms-make")
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[string]bool{"CONFIG_CC_IS_GCC=y\n": false, "CONFIG_CC_IS_GCC=y\n# CONFIG_CC_IS_CLANG is not set\n": false, "CONFIG_CC_IS_CLANG=y\n": true} {
		dir := t.TempDir()
		put := func(name, text string, mode os.FileMode) {
			t.Helper()
			file := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
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
