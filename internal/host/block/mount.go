// SPDX-License-Identifier: MIT

package block

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Mount is a line of mountinfo.
type Mount struct {
	MajMin, Root, Point, Type, Source string
	// Options are those of the file system itself.
	Options string
}

// Mounts is what is mounted, in the order of its mounts.
type Mounts []Mount

// ParseMounts reads the text of mountinfo.
func ParseMounts(text []byte) (Mounts, error) {
	var all Mounts
	for line := range strings.Lines(string(text)) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
		front, back, ok := strings.Cut(line, " - ")
		words, more := strings.Fields(front), strings.Fields(back)
		if !ok || len(words) < 6 || len(more) < 2 {
			return nil, fmt.Errorf("%q is not a line of mountinfo", strings.TrimSpace(line))
		}
		m := Mount{MajMin: words[2], Root: unescape(words[3]), Point: unescape(words[4]), Type: more[0], Source: unescape(more[1])}
		if len(more) > 2 {
			m.Options = more[2]
		}
		all = append(all, m)
	}
	return all, nil
}

// unescape takes back what the kernel writes for spaces and the like.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// At is the mount that a path lies on.
func (all Mounts) At(name string) (best Mount, found bool) {
	for _, m := range all {
		// The last one of the same length hides those before.
		if Within(name, m.Point) && (!found || len(m.Point) >= len(best.Point)) {
			best, found = m, true
		}
	}
	return best, found
}

// Within reports whether a path is a directory or below it.
func Within(name, dir string) bool {
	return dir == "/" || name == dir || strings.HasPrefix(name, dir+"/")
}

// Mounts reads what is mounted. Below another root, /proc/self would be that of a container.
func (s System) Mounts() (Mounts, error) {
	file := s.Path("proc/self/mountinfo")
	if _, err := os.Stat(s.Path("proc/1/mountinfo")); s.Root != "" && err == nil {
		file = s.Path("proc/1/mountinfo")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all, err := ParseMounts(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return all, nil
}

// longestWay is how many symbolic links the kernel follows in a path.
const longestWay = 40

// local are file systems without a disk's number that answer by themselves.
var local = []string{"bcachefs", "btrfs", "devtmpfs", "overlay", "proc", "ramfs", "rootfs", "sysfs", "tmpfs", "zfs"}

// mayHang reports whether a program or another machine answers below a mount, or does not.
func (m Mount) mayHang() bool {
	return strings.HasPrefix(m.Type, "fuse") || strings.HasPrefix(m.MajMin, "0:") && !slices.Contains(local, m.Type)
}

// real is a path of the machine without symbolic links, which are of the machine too. Below a mount that may
// hang, it is as it was written.
func (s System) real(name string, mounts Mounts) (string, error) {
	at, rest, links := "/", strings.Split(path.Clean(name), "/"), 0
	for len(rest) > 0 {
		next := path.Join(at, rest[0])
		if m, there := mounts.At(next); there && m.mayHang() {
			return path.Join(append([]string{at}, rest...)...), nil
		}
		rest = rest[1:]
		info, err := os.Lstat(s.Path(next))
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		to, err := os.Readlink(s.Path(next))
		if err != nil {
			return "", err
		}
		if links++; links > longestWay {
			return "", errors.New("too many symbolic links")
		}
		if path.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return at, nil
}
