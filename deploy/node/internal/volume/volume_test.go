// SPDX-License-Identifier: MIT

package volume

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"

	"isolio/internal/host/block"
)

const uid = "11111111-2222-3333-4444-555555555555"

// mounts are a node's: the root on LVM, the kubelet's directory on a partition, and what
// a pod has.
const mounts = `21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/mapper/vg-root rw
22 21 0:5 / /dev rw - devtmpfs udev rw
30 21 259:2 / /var/lib/kubelet rw shared:2 - xfs /dev/nvme0n1p2 rw
31 21 0:40 /@data /srv/with\040space rw - btrfs /dev/sdb rw
40 30 0:50 / /var/lib/kubelet/pods/` + uid + `/volumes/kubernetes.io~projected/token rw - tmpfs tmpfs rw
41 30 8:16 / /var/lib/kubelet/pods/` + uid + `/volumes/kubernetes.io~csi/pv-1/mount rw - ext4 /dev/sdb rw
42 30 0:60 / /var/lib/kubelet/pods/` + uid + `/volumes/kubernetes.io~nfs/pv-2 rw - nfs4 server:/x rw
43 30 0:5 /sda1 /var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pv-3/dev/` + uid + ` rw - devtmpfs udev rw
44 30 9:0 / /var/lib/kubelet/pods/` + uid + `/volumes/kubernetes.io~local-volume/pv-4 rw - ext4 /dev/md0 rw
45 30 8:16 / /var/lib/kubelet/pods/66666666-2222-3333-4444-555555555555/volumes/kubernetes.io~csi/other/mount rw - ext4 /dev/sdb rw
`

func node(t *testing.T) block.System {
	t.Helper()
	sys := block.System{Root: t.TempDir()}
	for file, text := range map[string]string{
		"nvme0n1/dev": "259:0", "nvme0n1/nvme0n1p2/dev": "259:2", "nvme0n1/nvme0n1p2/partition": "2",
		"sda/dev": "8:0", "sda/sda1/dev": "8:1", "sda/sda1/partition": "1", "sdb/dev": "8:16",
		"dm-0/dev": "254:0", "dm-0/dm/name": "vg-root", "dm-0/slaves/sda1/x": "",
		"md0/dev": "9:0", "md0/slaves/sda/x": "", "md0/slaves/dm-0/x": "",
	} {
		name := sys.Path("sys/block", file)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return sys
}

func TestWhereVolumesLie(t *testing.T) {
	table, err := Parse([]byte(mounts))
	if err != nil {
		t.Fatal(err)
	}
	pod := &core.Pod{}
	memory := core.Volume{Name: "memory"}
	memory.EmptyDir = &core.EmptyDirVolumeSource{Medium: core.StorageMediumMemory}
	scratch := core.Volume{Name: "scratch"}
	scratch.EmptyDir = &core.EmptyDirVolumeSource{}
	host, root := core.Volume{Name: "host"}, core.Volume{Name: "root"}
	host.HostPath, root.HostPath = &core.HostPathVolumeSource{Path: "/srv/with space/x"}, &core.HostPathVolumeSource{Path: "/var/log/"}
	pod.Spec.Volumes = []core.Volume{memory, scratch, host, root}
	sys := node(t)
	var got []string
	for _, v := range table.Of(uid, In(pod), "/var/lib/kubelet") {
		on := sys.Beneath(v.Mount)
		got = append(got, v.Name+"="+strings.Join(on, ","))
	}
	want := []string{"scratch=nvme0n1", "host=sdb", "root=dm-0,sda", "pv-1=sdb", "pv-2=", "pv-3=sda", "pv-4=md0,dm-0,sda"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// A container finds where the node has what is mounted for it, also behind a symbolic link.
func TestReal(t *testing.T) {
	const name = "/var/lib/kubelet/plugins"
	const root = "21 1 8:1 /@ / rw - btrfs /dev/sda1 rw\n"
	for what, tt := range map[string]struct{ node, own, want string }{
		"no link":                     {root, "5 1 8:1 /@/var/lib/kubelet/plugins " + name + " rw - btrfs /dev/sda1 rw\n", name},
		"a link on the same disk":     {root, "5 1 8:1 /@/srv/kubelet/plugins " + name + " rw - btrfs /dev/sda1 rw\n", "/srv/kubelet/plugins"},
		"a link to another disk":      {root + "22 21 8:16 / /mnt/data rw - ext4 /dev/sdb rw\n", "5 1 8:16 /kubelet/plugins " + name + " rw - ext4 /dev/sdb rw\n", "/mnt/data/kubelet/plugins"},
		"a disk of its own":           {root + "22 21 8:16 / " + name + " rw - ext4 /dev/sdb rw\n", "5 1 8:16 / " + name + " rw - ext4 /dev/sdb rw\n", name},
		"a part that is mounted":      {root + "22 21 8:1 /@/srv/kubelet /data/kubelet rw - btrfs /dev/sda1 rw\n", "5 1 8:1 /@/srv/kubelet/plugins " + name + " rw - btrfs /dev/sda1 rw\n", "/data/kubelet/plugins"},
		"mounted on itself":           {root + "22 21 8:1 /@/var/lib/kubelet /var/lib/kubelet rw - btrfs /dev/sda1 rw\n", "5 1 8:1 /@/var/lib/kubelet/plugins " + name + " rw - btrfs /dev/sda1 rw\n", name},
		"mounted twice":               {"20 1 8:1 /@ /mnt/all rw - btrfs /dev/sda1 rw\n" + root, "5 1 8:1 /@/var/lib/kubelet/plugins " + name + " rw - btrfs /dev/sda1 rw\n", name},
		"a mount that another hides":  {root + "22 21 8:16 / /mnt rw - ext4 /dev/sdb rw\n23 22 0:9 / /mnt rw - tmpfs tmpfs rw\n24 23 8:16 / /mnt/data rw - ext4 /dev/sdb rw\n", "5 1 8:16 /plugins " + name + " rw - ext4 /dev/sdb rw\n", "/mnt/data/plugins"},
		"not mounted":                 {root, "5 1 8:1 / / rw - btrfs /dev/sda1 rw\n", ""},
		"of a disk that is not there": {root, "5 1 8:32 /plugins " + name + " rw - ext4 /dev/sdc rw\n", ""},
	} {
		node, err := Parse([]byte(tt.node))
		if err != nil {
			t.Fatal(err)
		}
		own, err := Parse([]byte(tt.own))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := node.Real(own, name); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, want %q", what, got, tt.want)
		}
	}
}

func TestBadTable(t *testing.T) {
	if _, err := Parse([]byte("21 1 254:0\n")); err == nil || !strings.Contains(err.Error(), `"21 1 254:0" is not a line`) {
		t.Error(err)
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is read")
	}
	if table, err := Read("/proc/self/mountinfo"); err != nil || len(table.Mounts) == 0 {
		t.Errorf("this machine's: %v, %v", table, err)
	}
}
