// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// spare is the disk that the new user may use: the model has the name of a real one.
const spare = "nvme0n1"

// second is another disk, which stays as it is.
const second = "nvme1n1"

// modelDisk has a disk appear, as one that is plugged in does, until the test ends.
func modelDisk(t *testing.T, name string) {
	t.Helper()
	modelDiskOf(t, name, 256)
}

// modelDiskOf has one appear that is slowed down by a factor.
func modelDiskOf(t *testing.T, name string, scale int) {
	t.Helper()
	t.Cleanup(func() { quiet(t, "cd /sys/kernel/config/modeldisk && echo 0 >"+name+"/power && rmdir "+name) })
	quiet(t, `modprobe modeldisk
cd /sys/kernel/config/modeldisk && mkdir `+name+` && cd `+name+`
echo nvme >model; echo p4500-2tb >preset; echo `+strconv.Itoa(scale)+` >scale; echo 1 >queues; echo 128 >tags; echo 1 >power`)
}

// quiet runs what is not the user's to do; it must succeed.
func quiet(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
	return string(out)
}

// shown is a step of a page such as docs/results/first-hour.md: a command of the user's,
// and what it printed.
type shown struct {
	Step    string  `json:"step"`
	Command string  `json:"command"`
	Output  string  `json:"output"`
	Failed  bool    `json:"failed,omitempty"`
	Seconds float64 `json:"seconds"`
}

// hour is a user's first one.
type hour struct{ t *testing.T }

// step runs a command as the user types it, and has the page show it. The user is root,
// so "sudo" is left out of what is run.
func (h *hour) step(name, command string) string {
	h.t.Helper()
	out, err := h.tried(name, command)
	if err != nil {
		h.t.Errorf("%s: %s: %v", name, command, err)
	}
	return out
}

// refused is a step that must fail with an exit status.
func (h *hour) refused(name, command string, status int) string {
	h.t.Helper()
	out, err := h.tried(name, command)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != status {
		h.t.Errorf("%s: %s: %v, want exit status %d", name, command, err, status)
	}
	return out
}

func (h *hour) tried(name, command string) (string, error) {
	h.t.Helper()
	began := time.Now()
	cmd := exec.Command("sh", "-c", strings.ReplaceAll(command, "sudo ", ""))
	cmd.Env = append(os.Environ(), "COLUMNS=110")
	out, err := cmd.CombinedOutput()
	h.t.Logf("%s: # %s\n%s", name, command, out)
	send(h.t, "steps", shown{name, command, string(out), err != nil, time.Since(began).Seconds()})
	return string(out), err
}

// says checks what a stranger is to read there.
func (h *hour) says(name, out string, wants ...string) {
	h.t.Helper()
	for _, want := range wants {
		if !strings.Contains(out, want) {
			h.t.Errorf("%s: no %q in\n%s", name, want, out)
		}
	}
}

// reads is fio's command line, which reads at random from a disk.
func reads(disk string) string {
	return strings.ReplaceAll(userLoad, "disk1", disk)
}

// takesBuiltModules has DKMS take the modules that were built elsewhere, if they are there.
func takesBuiltModules(t *testing.T) {
	t.Helper()
	if exists(builtModules) {
		quiet(t, "install -D "+builtModules+" /usr/share/isolio-dkms/isolio-$(dpkg-deb -f "+packages+"/isolio-dkms_*.deb Version).dkms.tar.gz")
	}
}

// until waits until a command prints a text.
func until(t *testing.T, command, want string) {
	t.Helper()
	var out []byte
	for range 120 {
		out, _ = exec.Command("sh", "-c", command).CombinedOutput()
		if strings.Contains(string(out), want) {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Fatalf("%s: no %q within a minute:\n%s", command, want, out)
}

// The first hour of a new user with the packages, from README alone: installs them, asks
// the doctor, enables a spare disk, gives a unit a weight, sees it act, finds out why
// another one does not, and uninstalls.
func TestFirstHour(t *testing.T) {
	if !exists(packages) {
		t.Skip("no packages here: make vm T=first-hour")
	}
	must(t, os.Setenv("DEBIAN_FRONTEND", "noninteractive"))
	h := &hour{t}
	h.step("machine", "head -n 1 /etc/os-release; uname -r")
	takesBuiltModules(t)
	must(t, os.Chdir(packages))
	h.step("install", "sudo apt-get install -qq ./isolio_*.deb ./isolio-dkms_*.deb 2>&1 | grep -v '^(Reading' | tail -n 6")
	modelDisk(t, spare)
	modelDisk(t, second)
	h.says("doctor", h.step("doctor", "isolio doctor"), "cgroup")
	h.says("enable", h.step("enable", "sudo isolio enable "+spare), spare+": scheduler kyber-fairness")

	t.Cleanup(func() { _ = exec.Command("systemctl", "stop", "web", "batch", "backup").Run() })
	for _, unit := range []struct{ name, disk string }{{"web", spare}, {"batch", spare}, {"backup", second}} {
		quiet(t, "systemd-run --unit "+unit.name+" fio "+reads(unit.disk))
	}
	until(t, "isolio top --json --count 1 --interval 500ms", "/batch.service")
	h.says("top before", h.step("before", "isolio top --count 1 --interval 4s"), "web", "batch", "50.0")
	h.says("weight", h.step("weight", "sudo isolio weight web 300"), "300")
	until(t, "isolio top --json --count 1 --interval 500ms", "/batch.service")
	h.says("top after", h.step("after", "isolio top --count 1 --interval 4s"), "web", "batch", "75.", "25.")

	h.step("inert", "sudo isolio weight backup 500")
	h.says("explain", h.step("explain", "isolio explain backup"), second, "isolio enable "+second)
	h.says("status", h.step("status", "isolio status"), "web", "backup")

	quiet(t, "systemctl stop web batch backup")
	h.says("disable", h.step("disable", "sudo isolio disable "+spare), spare+": scheduler ")
	h.step("purge", "sudo apt-get purge -qq isolio-dkms isolio 2>&1 | grep -v '^(Reading'")
	if left := h.step("left", "lsmod | grep -E 'kyber_fairness|^rsd|^sfq'; ls -d /run/isolio /etc/isolio* /usr/bin/isolio 2>/dev/null; cat /sys/block/"+spare+"/queue/scheduler"); strings.Contains(left, "isolio") || strings.Contains(left, "kyber_fairness") {
		t.Errorf("is left: %s", left)
	}
}

// installPackages has isolio and its modules from their packages, until the test ends.
func installPackages(t *testing.T) {
	t.Helper()
	if !exists(packages) {
		t.Skip("no packages here: make vm T=user")
	}
	must(t, os.Setenv("DEBIAN_FRONTEND", "noninteractive"))
	takesBuiltModules(t)
	quiet(t, "cd "+packages+" && apt-get install -qq ./isolio_*.deb ./isolio-dkms_*.deb")
	t.Cleanup(func() { _, _ = tried(t, "apt-get purge -qq isolio isolio-dkms") })
}

// A boot that hangs once it has given disks their schedulers is the last one that does. The machine's part of a boot is
// done again: /run is empty, and the disk appears.
func TestBootsThatHang(t *testing.T) {
	installPackages(t)
	modelDisk(t, spare)
	shell(t, "isolio enable "+spare+" --persist && cat /etc/udev/rules.d/99-zz-isolio-*")
	quiet(t, "udevadm control --reload") // it looks for new rules every three seconds
	const note = "/var/lib/isolio/boot"
	boots := func() {
		t.Helper()
		quiet(t, "cd /sys/kernel/config/modeldisk/"+spare+"; echo 0 >power; udevadm settle; systemctl stop isolio; "+
			"systemctl kill -s KILL isolio-boot 2>/dev/null || true; sleep 1; systemctl reset-failed; rm -rf /run/isolio; echo 1 >power; udevadm settle")
	}
	is := func(scheduler, unit string) {
		t.Helper()
		until(t, "echo is $(systemctl is-active isolio-boot); systemctl status --no-pager isolio-boot || true", "is "+unit)
		until(t, "cat /sys/block/"+spare+"/queue/scheduler; ls -l /run/isolio; udevadm info -q property -p /sys/block/"+spare+" || true", scheduler)
	}
	boots()
	is("[kyber-fairness]", "active")
	if !exists(note) {
		t.Errorf("%s is not there while the machine boots", note)
	}
	// It hangs, and is reset.
	boots()
	is("[mq-deadline]", "failed")
	boots()
	is("[mq-deadline]", "failed")
	if text, _ := tried(t, "isolio doctor"); !strings.Contains(text, "isolio enable "+spare+" --persist") {
		t.Error("doctor does not say how disks have their schedulers again")
	}
	shell(t, "isolio enable "+spare+" --persist")
	boots()
	is("[kyber-fairness]", "active")
	// A minute after it has finished, the next one may go on.
	quiet(t, "sleep 40")
	until(t, "ls /var/lib/isolio; [ -e "+note+" ] || echo finished", "finished")
	quiet(t, "systemctl stop isolio-boot")
	boots()
	is("[kyber-fairness]", "active")
	// And one that is shut down did not hang.
	quiet(t, "systemctl stop isolio-boot")
	if exists(note) {
		t.Errorf("%s is there after a shutdown", note)
	}
}

// A [[disk]] table gives a disk its scheduler and tunables when the machine finds it at
// boot, and when it appears later, through udev and systemd.
func TestDiskTables(t *testing.T) {
	installPackages(t)
	start := strings.TrimSpace(quiet(t, "sleep 1; date '+%F %T'")) // the log of what other tests did stays
	must(t, os.WriteFile("/etc/isolio.toml", []byte("[[disk]]\ndevice = \""+spare+"\"\nshare_by = \"time\"\nmax_wait_ms = 700\n"), 0o644))
	t.Cleanup(func() { _ = os.Remove("/etc/isolio.toml") })
	is := func(file, want string) {
		t.Helper()
		until(t, "cat /sys/block/"+spare+"/queue/"+file+" || systemctl status --no-pager isolio-disk@* || true", want)
	}
	unit := "isolio-disk@sys-devices-virtual-block-" + spare + ".service"

	// At boot: the disk is there before udev and systemd look.
	quiet(t, "systemctl stop systemd-udevd systemd-udevd-kernel.socket systemd-udevd-control.socket")
	modelDisk(t, spare)
	modelDisk(t, second)
	before := quiet(t, "cat /sys/block/"+second+"/queue/scheduler")
	quiet(t, "systemctl start systemd-udevd && systemctl restart systemd-udev-trigger && udevadm settle")
	is("scheduler", "[kyber-fairness]")
	is("iosched/share_by", "[time]")
	is("iosched/max_wait_ms", "700")
	if now := quiet(t, "cat /sys/block/"+second+"/queue/scheduler"); strings.Contains(now, "[kyber-fairness]") {
		t.Errorf("%s, which has no table, has %s, before %s", second, now, before)
	}
	shell(t, "systemctl list-units --all --no-legend --plain 'isolio-disk@*'; systemctl status --no-pager "+unit+" || true")

	// Hotplug: it goes, and one comes.
	config := "/sys/kernel/config/modeldisk/" + spare
	quiet(t, "echo 0 >"+config+"/power")
	until(t, "ls /sys/block", second)
	quiet(t, "echo 1 >"+config+"/power")
	is("scheduler", "[kyber-fairness]")
	is("iosched/share_by", "[time]")

	// The operator takes it back, and it stays so until the disk comes again.
	shell(t, "isolio disable "+spare+" && udevadm settle")
	if now := quiet(t, "cat /sys/block/"+spare+"/queue/scheduler"); strings.Contains(now, "[kyber-fairness]") {
		t.Errorf("after disable: %s", now)
	}
	shell(t, "rm /etc/isolio.toml; echo 0 >"+config+"/power; echo 1 >"+config+"/power; udevadm settle; sleep 5")
	if now := quiet(t, "cat /sys/block/"+spare+"/queue/scheduler"); strings.Contains(now, "[kyber-fairness]") {
		t.Errorf("without a table: %s", now)
	}
	if log := quiet(t, "journalctl --no-pager -u 'isolio-disk@*' -p warning -q --since '"+start+"'"); strings.TrimSpace(log) != "" {
		t.Errorf("the units complain: %s", log)
	}
}
