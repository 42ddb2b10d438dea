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
	"time"
)

// packages is where the Debian packages are, if this machine has any: `make
// test-user` brings them, in a distribution with podman.
const packages = "/tests/packages"

// builtModules are the modules as the distribution's DKMS has built them, in an
// archive that it takes them from: the compiler would take this machine half an
// hour. Without it, DKMS builds them here.
const builtModules = packages + "/modules.tar.gz"

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
	now := topOf(t, "--interval 4s --count 1")
	for name, weight := range asked {
		got, want := now[name].Share, weight/sum
		t.Logf("%s: %s has %.2f %%, asked for %.2f %%: %+.2f %%", when, name, 100*got, 100*want, 100*(got/want-1))
		if math.Abs(got/want-1) > 0.03 {
			t.Errorf("%s: %s has %.2f %% of the disk, asked for %.2f %%", when, name, 100*got, 100*want)
		}
	}
}

// A new user with the packages and containers: installs them, asks the doctor, enables a
// disk, starts containers with --blkio-weight, and looks at the shares.
func TestNewUser(t *testing.T) {
	if !exists(packages) {
		t.Skip("no packages and no podman here: make vm T=user")
	}
	must(t, os.Setenv("DEBIAN_FRONTEND", "noninteractive"))
	shell(t, "cat /etc/os-release | head -1; uname -r; podman --version; crun --version | head -1; runc --version | head -1; isolio --version || true")
	shell(t, "find /lib/modules /usr/src /var/lib/dkms /etc /usr/bin /usr/lib/systemd -name '*isolio*' | sort >/var/tmp/before")
	if exists(builtModules) {
		shell(t, "install -D "+builtModules+" /usr/share/isolio-dkms/isolio-$(dpkg-deb -f "+packages+"/isolio-dkms_*.deb Version).dkms.tar.gz")
	}
	started := time.Now()
	shell(t, "cd "+packages+" && apt-get install -y ./isolio*.deb && dkms status")
	t.Logf("that took %.0f s", time.Since(started).Seconds())
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
	t.Run("weight", weighsContainers)
	t.Run("rules", keepsRules)
	t.Run("top", watchesTop)

	shell(t, "isolio status")
	shell(t, "isolio disable disk1; echo 0 >/sys/kernel/config/modeldisk/disk1/power; rmdir /sys/kernel/config/modeldisk/disk1; modprobe -r modeldisk")
	shell(t, "apt-get purge -y isolio isolio-dkms isolio-lab")
	// The lab's own: its unit, and the mount of its init.
	if left := shell(t, "find /lib/modules /usr/src /var/lib/dkms /etc /usr/bin /usr/lib/systemd -name '*isolio*' | sort | diff /var/tmp/before - || true; lsmod | grep -E 'kyber_fairness|modeldisk|rsd|sfq' || true; ls -d /run/isolio 2>/dev/null || true; systemctl list-units --all --plain --no-legend 'isolio*' | grep -vE '^isolio(-lab.service|.mount) ' || true"); strings.TrimSpace(left) != "" {
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
	shell(t, "isolio top")

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

// twoContainers start two with 600 and 200, which end with the test.
func twoContainers(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { _, _ = tried(t, "podman rm -f -t 0 --all") })
	podmanRun(t, "crun", "web", 600)
	podmanRun(t, "crun", "batch", 200)
}

// Weights that an operator gives outlast what the daemon and systemd do.
func weighsContainers(t *testing.T) {
	twoContainers(t)
	// What crun asks systemd for where --blkio-weight is 200.
	shell(t, "isolio weight web 1200")
	asked := map[string]float64{"web": 1200, "batch": 200}
	sharesAsAsked(t, "after isolio weight", asked)
	shell(t, "systemctl daemon-reload; systemctl restart isolio")
	sharesAsAsked(t, "after daemon-reload and another daemon", asked)
	shell(t, "isolio weight batch 400 --device disk1")
	asked["batch"] = 400
	sharesAsAsked(t, "after isolio weight of one disk", asked)
}

// Rules win over requested weights. A file with a mistake changes nothing, and the
// reload prints the line and the key.
func keepsRules(t *testing.T) {
	const rules, good = "/etc/isolio.toml", "metrics = \"127.0.0.1:9188\"\n\n[[rule]]\nname = \"batch\"\nweight = 400\n"
	t.Cleanup(func() { _, _ = tried(t, "rm -f "+rules+"; systemctl restart isolio") })
	twoContainers(t)
	must(t, os.WriteFile(rules, []byte(good), 0o644))
	shell(t, "systemctl restart isolio")
	asked := map[string]float64{"web": 600, "batch": 400}
	sharesAsAsked(t, "with a rule", asked)
	for _, want := range []string{`isolio_weight{cgroup="`, `container="batch",device="disk1"} 400`, "isolio_request_duration_seconds_bucket{", "isolio_throttled_seconds_total{"} {
		if got := metrics(t); !strings.Contains(got, want) {
			t.Errorf("no %s in the metrics: %s", want, got)
		}
	}

	must(t, os.WriteFile(rules, []byte(strings.Replace(good, "weight = 400", "weight = 40000", 1)), 0o644))
	if out, err := tried(t, "systemctl reload isolio"); err == nil {
		t.Errorf("a reload with a mistake in the rules succeeds: %s", out)
	}
	shell(t, "systemctl kill -s HUP isolio") // who does not ask first
	sharesAsAsked(t, "after reloads with a mistake", asked)
	log := strings.ReplaceAll(shell(t, "systemctl is-active isolio; journalctl --no-pager -u isolio | tail -10"), `\"`, `"`) // the daemon's values are quoted
	const told = rules + ":5: rule.weight: 40000 is out of range; allowed: an integer 1..10000, or \"sum\""
	for _, want := range []string{"active", "isolio: " + told, told + "; the rules in force stay"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in the log", want)
		}
	}

	must(t, os.WriteFile(rules, []byte(strings.Replace(good, "weight = 400", "weight = 300", 1)), 0o644))
	shell(t, "systemctl reload isolio")
	asked["batch"] = 300
	sharesAsAsked(t, "after a reload", asked)
	must(t, os.Remove(rules))
	shell(t, "systemctl reload isolio")
	asked["batch"] = 200
	sharesAsAsked(t, "without rules", asked)
}

// The user keeps `isolio top` open in a terminal, and presses its keys.
func watchesTop(t *testing.T) {
	twoContainers(t)
	sharesAsAsked(t, "for top", map[string]float64{"web": 600, "batch": 200})
	shell(t, "tmux new-session -d -x 132 -y 16 -s top isolio top")
	t.Cleanup(func() { _, _ = tried(t, "tmux kill-server") })
	shows := func(what string, wants func(screen string) bool) {
		t.Helper()
		screen := ""
		for range 60 {
			out, err := exec.Command("tmux", "capture-pane", "-p", "-t", "top").Output()
			must(t, err)
			if screen = string(out); wants(screen) {
				t.Logf("%s:\n%s", what, screen)
				return
			}
			time.Sleep(500 * time.Millisecond)
		}
		t.Fatalf("%s: not so within 30 s:\n%s", what, screen)
	}
	has := func(all ...string) func(string) bool {
		return func(screen string) bool {
			for _, text := range all {
				if !strings.Contains(screen, text) {
					return false
				}
			}
			return true
		}
	}
	shows("two containers, with a history", has("ACTUAL%▼", "LAST", "web", "batch", "75.0", "25.0", "█"))
	shell(t, "tmux send-keys -t top t")
	shows("the tree", has("machine.slice", "    web", "    batch"))
	shell(t, "tmux send-keys -t top t / b a t Enter")
	shows("a filter", func(screen string) bool { return has("filter: bat", "batch")(screen) && !has("  web ")(screen) })
	shell(t, "tmux send-keys -t top Escape") // with the next key at once it would be Alt's
	shows("no filter", func(screen string) bool { return has("web", "batch")(screen) && !has("filter:")(screen) })
	shell(t, "tmux send-keys -t top Space; tmux resize-window -t top -x 80 -y 12")
	shows("paused, on 80 columns", has("PAUSED", "web", "batch"))
	shell(t, "tmux send-keys -t top q")
	if out, err := tried(t, "while tmux has-session -t top 2>/dev/null; do sleep 0.2; done"); err != nil {
		t.Errorf("q does not quit: %v: %s", err, out)
	}
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
