// SPDX-License-Identifier: MIT

package shell

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/printable"
)

// hostile are names that a tenant may give a cgroup.
var hostile = []string{
	"web", "", "a b", "x;touch HACKED;", "a'b", "';touch HACKED;'", "lxc.slice/b`touch HACKED`", "$(touch HACKED)", `a\b`, `dev-disk-by\x2duuid.device`,
	"-n", "--help", "a\nb", "\x1b]0;title\a", "\xff\xfe", "a\u202eb", "100%d", "~root", "*", "Büro 12", "\x1b-'%s'\\", "-\x01",
}

// A shell gives each word back as it was, and runs nothing of it. /bin/sh is any
// POSIX shell: dash on Debian.
func TestQuote(t *testing.T) {
	dir := t.TempDir()
	for _, word := range hostile {
		quoted := Quote(word)
		if !printable.Is(strings.ReplaceAll(quoted, "\n", "")) {
			t.Errorf("Quote(%q) = %q, which acts on a terminal", word, quoted)
		}
		cmd := exec.Command("/bin/sh", "-c", "printf %s "+quoted)
		cmd.Dir = dir
		got, err := cmd.Output()
		if err != nil || string(got) != word {
			t.Errorf("sh makes %q of %s, %v; want %q", got, quoted, err, word)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a command ran: %v, %v", left, err)
	}
}

func TestJoin(t *testing.T) {
	if got, want := Join("mkdir", "-p", "/a b", "x'y"), `mkdir -p '/a b' 'x'\''y'`; got != want {
		t.Errorf("Join = %s, want %s", got, want)
	}
}

// The file has the text, also one with lines that end a here-document.
func TestWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a;b")
	for _, text := range []string{"one\n", "one\nEOF\ntouch HACKED\n", "%s\\n 'quoted'\n\n\nlast\n", "\n"} {
		if said, err := exec.Command("/bin/sh", "-c", Write(file, text)).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", Write(file, text), err, said)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("the file has %q, %v; want %q", got, err, text)
		}
	}
}
