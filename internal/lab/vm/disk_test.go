// SPDX-License-Identifier: MIT

package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/must"
)

// Every disk of a kind has a file that backs it and a device that uses it, and every
// device hangs on one that comes before it.
func TestDiskArgs(t *testing.T) {
	dir := t.TempDir()
	for _, kind := range diskKinds {
		args, err := diskArgs(dir, []string{kind.name})
		must.OK(t, err)
		line := strings.Join(args, " ")
		if strings.Contains(line, "%") {
			t.Errorf("%s: a name is missing in %s", kind.name, line)
		}
		if got := strings.Count(line, "if=none"); got != kind.disks {
			t.Errorf("%s: %d backings for %d disks", kind.name, got, kind.disks)
		}
		files, err := filepath.Glob(filepath.Join(dir, kind.name+"-[0-9].raw"))
		must.OK(t, err)
		if len(files) != kind.disks {
			t.Errorf("%s: files %q for %d disks", kind.name, files, kind.disks)
		}
		for _, file := range files {
			info, err := os.Stat(file)
			must.OK(t, err)
			if info.Size() != diskMiB<<20 {
				t.Errorf("%s has %d bytes", file, info.Size())
			}
			id := strings.TrimSuffix(filepath.Base(file), ".raw")
			if !strings.Contains(line, "drive="+id) {
				t.Errorf("%s: no device has the disk %s: %s", kind.name, id, line)
			}
		}
		for _, device := range kind.devices {
			if _, bus, ok := strings.Cut(device, "bus=%s"); ok {
				bus = strings.TrimRight(strings.SplitN(bus, ",", 2)[0], ".0")
				if !strings.Contains(strings.Join(kind.devices[:slices.Index(kind.devices, device)], " "), "id=%s"+bus) {
					t.Errorf("%s: nothing before %s has its bus", kind.name, device)
				}
			}
		}
		if len(kind.modules) == 0 {
			t.Errorf("%s: no driver", kind.name)
		}
	}
	if _, err := diskArgs(dir, []string{"floppy"}); err == nil || !strings.Contains(err.Error(), `no kind of disk "floppy"; there are nvme,`) {
		t.Errorf("a kind that there is not: %v", err)
	}
}

// Two kinds that share a driver load it once.
func TestDiskModules(t *testing.T) {
	modules, err := diskModules([]string{"ahci", "megasas"})
	must.OK(t, err)
	if want := []string{"ahci", "sd_mod", "megaraid_sas"}; !slices.Equal(modules, want) {
		t.Errorf("modules %q, want %q", modules, want)
	}
}
