// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// packages is where the Debian packages are, if this machine has any: `make
// test-user` brings them, in a distribution with podman.
const packages = "/tests/packages"

// shell runs a user's command, which must succeed, shows what it printed, and
// returns that.
func shell(t *testing.T, command string) string {
	t.Helper()
	out, err := tried(t, command)
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return out
}

func tried(t *testing.T, command string) (string, error) {
	t.Helper()
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	t.Logf("# %s\n%s", command, out)
	return string(out), err
}

// userLoad is fio's command line: more requests at a time than the disk takes. Each is a
// thread's, as podman lets no container wait for asynchronous ones.
const userLoad = "--name=load --filename=/dev/disk1 --ioengine=psync --direct=1 --invalidate=0 --bs=4k --rw=randread --norandommap --numjobs=48 --time_based --runtime=36000 --thread"

// have is a line of `isolio top --json`.
type have struct {
	Container, Cgroup string
	Weight            int
	Entitled          float64 `json:"entitled_share"`
	Share             float64
	IOPS              float64
}

// name is what a user calls it.
func (h have) name() string {
	if h.Container != "" {
		return h.Container
	}
	return strings.TrimSuffix(h.Cgroup[strings.LastIndexByte(h.Cgroup, '/')+1:], ".service")
}

func topOf(t *testing.T, options string) map[string]have {
	t.Helper()
	out, err := exec.Command("sh", "-c", "isolio top --json "+options).Output()
	must(t, err)
	all := map[string]have{}
	for line := range strings.Lines(string(out)) {
		var h have
		must(t, json.Unmarshal([]byte(line), &h))
		if h.IOPS > 0 {
			all[h.name()] = h
		}
	}
	return all
}

// sharesAsAsked waits until all of them read, with weights that are as asked, and
// compares what `isolio top` shows of some seconds with that.
func sharesAsAsked(t *testing.T, when string, asked map[string]float64) {
	t.Helper()
	sum := 0.0
	for _, weight := range asked {
		sum += weight
	}
	ready := func() bool {
		now := topOf(t, "--interval 500ms --count 1")
		for name, weight := range asked {
			if math.Abs(now[name].Entitled*sum/weight-1) > 0.001 {
				return false
			}
		}
		return len(now) == len(asked)
	}
	for tries := 0; !ready(); tries++ {
		if tries == 20 {
			_, _ = tried(t, "isolio top; isolio status; isolio daemon --once --dry-run; journalctl --no-pager -u isolio | tail -20; podman ps -a; for name in web batch; do podman logs $name; done")
			t.Fatalf("%s: weights are not as asked: %v", when, asked)
		}
	}
	t.Logf("%s, asked for %v", when, asked)
	shell(t, "isolio top --interval 1s")
	now := topOf(t, "--interval 6s --count 1")
	for name, weight := range asked {
		got, want := now[name].Share, weight/sum
		t.Logf("%s: %s has %.2f %%, asked for %.2f %%: %+.2f %%", when, name, 100*got, 100*want, 100*(got/want-1))
		if math.Abs(got/want-1) > 0.03 {
			t.Errorf("%s: %s has %.2f %% of the disk, asked for %.2f %%", when, name, 100*got, 100*want)
		}
	}
}

// What somebody does who has got the packages and has containers: install them,
// ask the doctor, enable a disk, start containers with --blkio-weight, look.
func TestNewUser(t *testing.T) {
	if !exists(packages) {
		t.Skip("no packages and no podman here: make test-user")
	}
	must(t, os.Setenv("DEBIAN_FRONTEND", "noninteractive"))
	shell(t, "cat /etc/os-release | head -1; uname -r; podman --version; crun --version | head -1; runc --version | head -1; isolio --version || true")
	shell(t, "find /lib/modules /usr/src /var/lib/dkms /etc /usr/bin /usr/lib/systemd -name '*isolio*' | sort >/var/tmp/before")
	shell(t, "cd "+packages+" && apt-get install -y ./isolio*.deb")
	shell(t, "systemctl is-active isolio")

	// The disk that the machine should have had.
	shell(t, `modprobe modeldisk
cd /sys/kernel/config/modeldisk && mkdir disk1 && cd disk1
echo nvme >model; echo p4500-2tb >preset; echo 256 >scale; echo 1 >queues; echo 128 >tags; echo 1 >power`)
	shell(t, "isolio doctor")
	shell(t, "isolio enable disk1")
	shell(t, `mkdir -p /var/tmp/image/tmp && cd /var/tmp/image
for file in $(command -v fio) $(ldd $(command -v fio) | grep -o '/[^ )]*'); do cp -L --parents $file .; done
tar -c . | podman import - load`)

	t.Run("crun", func(t *testing.T) { runsContainers(t, "crun") })
	t.Run("runc", func(t *testing.T) { runsContainers(t, "runc") })
	t.Run("units", runsUnits)

	shell(t, "isolio status")
	shell(t, "isolio disable disk1; echo 0 >/sys/kernel/config/modeldisk/disk1/power; rmdir /sys/kernel/config/modeldisk/disk1; modprobe -r modeldisk")
	shell(t, "apt-get purge -y isolio isolio-dkms")
	if left := shell(t, "find /lib/modules /usr/src /var/lib/dkms /etc /usr/bin /usr/lib/systemd -name '*isolio*' | sort | diff /var/tmp/before - || true; lsmod | grep -E 'kyber_fairness|modeldisk|rsd|sfq' || true; ls -d /run/isolio 2>/dev/null || true; systemctl list-units --all --plain --no-legend 'isolio*' | grep -v isolio-lab || true"); strings.TrimSpace(left) != "" {
		t.Errorf("removing the packages leaves: %s", left)
	}
}

func podmanRun(t *testing.T, runtime, name string, weight int) {
	t.Helper()
	option := ""
	if weight > 0 {
		option = fmt.Sprint(" --blkio-weight ", weight)
	}
	shell(t, fmt.Sprintf("podman --runtime %s run -d --name %s%s --network none --device /dev/disk1 load fio %s", runtime, name, option, userLoad))
}

func runsContainers(t *testing.T, runtime string) {
	t.Cleanup(func() { _, _ = tried(t, "podman rm -f -t 0 --all") })
	podman := "podman --runtime " + runtime
	asked := map[string]float64{"web": 600, "batch": 200}
	podmanRun(t, runtime, "web", 600)
	podmanRun(t, runtime, "batch", 200)
	sharesAsAsked(t, "two containers", asked)

	podmanRun(t, runtime, "db", 1000)
	podmanRun(t, runtime, "plain", 0)
	asked["db"], asked["plain"] = 1000, 100
	sharesAsAsked(t, "four containers", asked)

	shell(t, "systemctl daemon-reload")
	sharesAsAsked(t, "after daemon-reload", asked)

	shell(t, podman+" update --blkio-weight 300 web")
	asked["web"] = 300
	sharesAsAsked(t, "after podman update", asked)

	shell(t, podman+" restart -t 0 db")
	sharesAsAsked(t, "after podman restart", asked)

	shell(t, "systemctl kill -s KILL isolio")
	shell(t, podman+" update --blkio-weight 50 batch")
	asked["batch"] = 50
	sharesAsAsked(t, "after the daemon was killed", asked)
}

func runsUnits(t *testing.T) {
	t.Cleanup(func() { _, _ = tried(t, "systemctl stop web batch") })
	shell(t, "systemd-run --unit web -p IOWeight=300 fio "+userLoad)
	shell(t, "systemd-run --unit batch fio "+userLoad)
	asked := map[string]float64{"web": 300, "batch": 100}
	sharesAsAsked(t, "units", asked)
	shell(t, "systemctl daemon-reload")
	sharesAsAsked(t, "units after daemon-reload", asked)
	shell(t, "systemctl set-property --runtime batch.service IOWeight=700")
	asked["batch"] = 700
	sharesAsAsked(t, "units after set-property", asked)
}
