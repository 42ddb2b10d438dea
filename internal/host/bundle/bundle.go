// SPDX-License-Identifier: MIT

// Package bundle records the files that isolio reads of a machine, so that a report has the machine
// with it. Names of hosts and containers, numbers of disks and users' directories are replaced.
package bundle

import (
	"archive/tar"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"isolio/internal/host/block"
	"isolio/internal/host/machine"
	"isolio/internal/host/target"
)

// texts are files that are kept with what is in them.
var texts = []string{
	"sys/block/*/dev", "sys/block/*/size", "sys/block/*/ro", "sys/block/*/hidden", "sys/block/*/diskseq", "sys/block/*/wwid", "sys/block/*/serial",
	"sys/block/*/queue/scheduler", "sys/block/*/queue/nr_requests", "sys/block/*/queue/rotational", "sys/block/*/queue/zoned", "sys/block/*/queue/iosched/*",
	"sys/block/*/dm/name", "sys/block/*/dm/uuid", "sys/block/*/md/level", "sys/block/*/loop/backing_file",
	"sys/block/*/device/model", "sys/block/*/device/wwid", "sys/block/*/device/serial", "sys/block/*/*/partition", "sys/block/*/*/dev",
	"proc/self/mountinfo", "proc/cgroups", "proc/cmdline", "proc/swaps", "proc/sys/kernel/osrelease",
	"sys/kernel/security/lockdown", "etc/isolio.toml", "etc/isolio.d/*.toml", "run/isolio/enabled/*", "etc/os-release", "usr/lib/os-release",
	"etc/tuned/active_profile", "etc/tuned/*/tuned.conf", "etc/tuned/profiles/*/tuned.conf", "usr/lib/tuned/*/tuned.conf", "usr/lib/tuned/profiles/*/tuned.conf",
	"etc/tlp.conf", "etc/tlp.d/*.conf", "etc/default/tlp", "etc/sysfs.conf", "etc/sysfs.d/*.conf", "run/udev/data/b*",
}

// schedulers are directories of which files that choose a scheduler are kept.
var schedulers = []string{"etc/udev/rules.d/*.rules", "run/udev/rules.d/*.rules", "usr/lib/udev/rules.d/*.rules", "etc/tmpfiles.d/*.conf", "usr/lib/tmpfiles.d/*.conf"}

// presence are entries that say enough by being there.
var presence = []string{
	"sys/block/*/mq/*", "sys/block/*/slaves/*", "sys/block/*/holders/*", "sys/block/*/*/holders/*", "sys/fs/btrfs/*/devices/*",
	"sys/kernel/btf/vmlinux", "sys/firmware/efi", "run/systemd/system", "usr/lib/systemd/system/isolio.service", "lib/modules/*/build/Makefile",
}

// ofCgroups are files of each cgroup.
var ofCgroups = regexp.MustCompile(`^(io\..*|cgroup\.controllers|cgroup\.subtree_control)$`)

const (
	// mostCgroups and largest bound a bundle.
	mostCgroups = 5000
	largest     = 64 << 10
)

// Write records the machine below root, and returns the number of files.
func Write(root string, w io.Writer) (int, error) {
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return 0, err
	}
	sys := block.System{Root: root}
	m, _ := machine.Read(root) // a machine without cgroups is worth a report too
	s := newScrubber(salt, hostname(sys), m.Containers)
	files := map[string]string{}
	for _, pattern := range texts {
		if err := take(sys, pattern, files, func(string) bool { return true }); err != nil {
			return 0, err
		}
	}
	for _, pattern := range schedulers {
		if err := take(sys, pattern, files, func(text string) bool { return strings.Contains(text, "queue/scheduler") }); err != nil {
			return 0, err
		}
	}
	for _, pattern := range presence {
		found, _ := filepath.Glob(sys.Path(pattern)) // the patterns are well formed
		for _, name := range found {
			files[rel(sys, name)] = ""
		}
	}
	installed(sys, files)
	for i, group := range append([]string{""}, m.Groups...) {
		if i > mostCgroups {
			break
		}
		entries, _ := os.ReadDir(m.Tree.Path(group)) // one that is gone has no files
		for _, e := range entries {
			if !e.IsDir() && ofCgroups.MatchString(e.Name()) {
				name := m.Tree.Path(group, e.Name())
				files[rel(sys, name)] = read(name)
			}
		}
	}
	t := tar.NewWriter(w)
	written := map[string]bool{}
	for _, name := range sorted(files) {
		text := s.file(name, files[name])
		name = s.text(name)
		if written[name] {
			continue
		}
		written[name] = true
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			return 0, err
		}
		if _, err := io.WriteString(t, text); err != nil {
			return 0, err
		}
	}
	return len(written), t.Close()
}

// sorted has files of a directory that is itself an entry come in its place.
func sorted(files map[string]string) []string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

func rel(sys block.System, name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, sys.Path()), "/")
}

func read(name string) string {
	f, err := os.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return "" // not ours to read
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, largest))
	if err != nil {
		return ""
	}
	return string(text)
}

// take keeps the files of a pattern whose text is wanted.
func take(sys block.System, pattern string, files map[string]string, wanted func(string) bool) error {
	found, err := filepath.Glob(sys.Path(pattern))
	for _, name := range found {
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if text := read(name); wanted(text) {
			files[rel(sys, name)] = text
		}
	}
	return err
}

// installed keeps the lines of modules.dep that are about schedulers.
func installed(sys block.System, files map[string]string) {
	name := sys.Path("lib/modules", sys.Release(), "modules.dep")
	text, err := os.ReadFile(name)
	if err != nil {
		return
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "iosched") || strings.Contains(line, "/bfq.") {
			kept = append(kept, line)
		}
	}
	files[rel(sys, name)] = strings.Join(kept, "")
}

func hostname(sys block.System) string {
	text, _ := os.ReadFile(sys.Path("proc/sys/kernel/hostname"))
	name, _, _ := strings.Cut(strings.TrimSpace(string(text)), ".")
	return name
}

// scrubber replaces names and numbers by others, each by the same one everywhere.
type scrubber struct {
	salt  []byte
	names *regexp.Regexp // of the host and of containers, nil for none
	given map[string]string
}

func newScrubber(salt []byte, host string, containers []target.Container) *scrubber {
	s := &scrubber{salt: salt, given: map[string]string{}}
	add := func(name, kind string) {
		if len(name) > 1 && s.given[name] == "" {
			s.given[name] = fmt.Sprintf("%s%d", kind, len(s.given)+1)
		}
	}
	add(host, "host")
	for _, c := range containers {
		add(c.Name, "container")
		add(c.Pod, "pod")
		add(c.Namespace, "namespace")
	}
	var all []string
	for name := range s.given {
		all = append(all, regexp.QuoteMeta(name))
	}
	// The longest first, as one may begin with another.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	if len(all) > 0 {
		s.names = regexp.MustCompile(`(^|[^A-Za-z0-9])(` + strings.Join(all, "|") + `)`)
	}
	return s
}

var (
	// long are IDs of containers, pods and disks.
	long = regexp.MustCompile(`[0-9a-f]{32,64}|[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}`)
	// home is a user's directory, and remote a server's name in mountinfo.
	home   = regexp.MustCompile(`/home/[^/\s]+`)
	remote = regexp.MustCompile(`(?m) - (nfs4?|cifs|smb3|ceph|fuse\S*|9p) \S+ .*$`)
	// number is a property with a disk's own number.
	number = regexp.MustCompile(`(?m)^(E:(?:ID_\w*SERIAL\w*|ID_WWN\w*|DM_UUID|DM_SERIAL|DM_WWN)=)(.*)$`)
	// told are the words of the kernel's command line that isolio asks for.
	told = regexp.MustCompile(`^(cgroup_\w+|systemd\.\w+|nvme_core\.\w+|elevator)(=|$)`)
	// property is what isolio asks udev's database for.
	property = regexp.MustCompile(`^E:(ID_|DM_)`)
)

// text replaces names.
func (s *scrubber) text(text string) string {
	text = long.ReplaceAllStringFunc(text, s.digits)
	text = home.ReplaceAllString(text, "/home/user")
	if s.names != nil {
		text = s.names.ReplaceAllStringFunc(text, func(match string) string {
			parts := s.names.FindStringSubmatch(match)
			return parts[1] + s.given[parts[2]]
		})
	}
	return text
}

// file is the text of a file as the bundle has it.
func (s *scrubber) file(name, text string) string {
	switch base := path.Base(name); {
	case base == "serial", base == "wwid":
		kind, rest, dotted := strings.Cut(strings.TrimSpace(text), ".")
		if !dotted {
			kind, rest = "", kind
		} else {
			kind += "."
		}
		return kind + s.digits(rest) + "\n"
	case base == "cmdline":
		words := slices.DeleteFunc(strings.Fields(text), func(word string) bool { return !told.MatchString(word) })
		return strings.Join(words, " ") + "\n"
	case strings.HasPrefix(name, "run/udev/data/"):
		var kept []string
		for line := range strings.Lines(text) {
			if property.MatchString(line) {
				kept = append(kept, line)
			}
		}
		text = number.ReplaceAllStringFunc(strings.Join(kept, ""), func(line string) string {
			parts := number.FindStringSubmatch(line)
			return parts[1] + s.digits(parts[2])
		})
	case base == "mountinfo":
		text = remote.ReplaceAllString(text, " - $1 server:/path rw")
	}
	return s.text(text)
}

// digits are others in place of those of a number; its length and signs stay.
func (s *scrubber) digits(number string) string {
	mac := hmac.New(sha256.New, s.salt)
	mac.Write([]byte(number))
	with := hex.EncodeToString(mac.Sum(nil))
	with += with
	var b strings.Builder
	for i, r := range number {
		switch {
		case r == '-' || r == '_' || r == '.':
			b.WriteRune(r)
		default:
			b.WriteByte(with[i%len(with)])
		}
	}
	return b.String()
}
