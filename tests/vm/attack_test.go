// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"isolio/internal/testtree"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// attacked is a host with containers of three engines and a unit, of which one
// container, one pod and one unit are a tenant's, and with the daemon.
type attacked struct {
	t      *testing.T
	d      *disk
	cmd    *exec.Cmd
	log    string // the daemon's
	probes int
	beside int // containers that have no part in it
}

// What the rules below say. The tenant's are the last three.
var ruled = []struct{ group, weight string }{
	{dockerNeighbour, "800"},
	{podmanNeighbour, "700"},
	{podDB, "600"},
	{crioDB, "8000"},
	{unitShop, "300"}, // IOWeight=
	{dockerTenant, "10"},
	{podJob, "20"},
	{crioJob, "100"},
}

const rulesOfAttacked = `metrics = "` + attackPort + `"
nri = "off"

[[rule]]
pod = "prod/db-*"
name = "postgres"
weight = 8000

[[rule]]
pod = "prod/*"
weight = 600

[[rule]]
pod = "tenant-b/*"
weight = 20

[[rule]]
name = "postgres"
weight = 800

[[rule]]
name = "db"
weight = 700

[[rule]]
name = "batch-*"
weight = 10
`

// busyDisk keeps requests waiting, so that shares are the scheduler's to decide.
var busyDisk = []string{"irqmode=2", "completion_nsec=1000000", "hw_queue_depth=16", "submit_queues=1", "size=256"}

const (
	dockerFiles  = "/var/lib/docker/containers"
	storageFiles = "/var/lib/containers/storage/overlay-containers"
	dockerTasks  = "/run/containerd/io.containerd.runtime.v2.task/moby"
)

// putFile makes a file with its directories, as an engine does.
func putFile(t *testing.T, file, text string) {
	t.Helper()
	testtree.File(t, file, text)
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	return string(text)
}

// dockerHas writes what Docker keeps of a container.
func dockerHas(t *testing.T, id, name string, labels map[string]string) {
	t.Helper()
	config := map[string]any{"ID": id, "Name": "/" + name, "Config": map[string]any{"Labels": labels}}
	putFile(t, filepath.Join(dockerFiles, id, "config.v2.json"), asJSON(t, config))
	putFile(t, filepath.Join(dockerFiles, id, "hostconfig.json"), "{}")
	spec := specs.Spec{Version: "1.0.2", Annotations: labels, Linux: &specs.Linux{CgroupsPath: "system.slice:docker:" + id}}
	putFile(t, filepath.Join(dockerTasks, id, "config.json"), asJSON(t, spec))
}

// crioHas writes what CRI-O keeps of a pod's container: its own keys over those
// that the pod's author chose.
func crioHas(t *testing.T, id, group, namespace, pod, name string, chosen map[string]string) {
	t.Helper()
	annotations := map[string]string{}
	maps.Copy(annotations, chosen)
	maps.Copy(annotations, map[string]string{
		"io.kubernetes.container.name": name, "io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": namespace,
		"io.kubernetes.cri-o.ContainerType": "container", "io.kubernetes.cri-o.Labels": "{}", "io.kubernetes.cri-o.Annotations": asJSON(t, chosen),
	})
	path := filepath.Base(filepath.Dir(group)) + ":crio:" + id
	spec := specs.Spec{Version: "1.0.2", Annotations: annotations, Linux: &specs.Linux{CgroupsPath: path}}
	putFile(t, filepath.Join(storageFiles, id, "userdata/config.json"), asJSON(t, spec))
}

// podmanHas writes the list of names, with the tenant's containers' as well.
func podmanHas(t *testing.T) {
	t.Helper()
	putFile(t, filepath.Join(storageFiles, "containers.json"), `[{"id":"`+idPodman+`","names":["db"]},{"id":"`+idPodJob+`","names":["db"]}]`)
	spec := specs.Spec{Version: "1.0.2", Linux: &specs.Linux{CgroupsPath: "machine.slice:libpod:" + idPodman}}
	putFile(t, filepath.Join(storageFiles, idPodman, "userdata/config.json"), asJSON(t, spec))
}

// forgedIdentity are the keys by which engines say who a container is, as a tenant
// gives them to be the neighbour.
var forgedIdentity = map[string]string{
	"io.kubernetes.cri.container-name": "postgres", "io.kubernetes.cri.sandbox-name": "db-0", "io.kubernetes.cri.sandbox-namespace": "prod",
	"io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.container.name": "postgres", "io.kubernetes.pod.name": "db-0",
	"io.kubernetes.pod.namespace": "prod", "io.kubernetes.docker.type": "podsandbox", "io.kubernetes.cri-o.ContainerType": "sandbox",
	"io.kubernetes.cri-o.Labels":   `{"io.kubernetes.pod.name":"db-0","io.kubernetes.container.name":"postgres"}`,
	"io.kubernetes.cri-o.Metadata": `{"name":"postgres"}`, "io.kubernetes.cri-o.KubeName": "db-0", "nerdctl/name": "postgres",
	"isolio.dev/weight": "10000", "isolio.class": "gold", "name": "postgres",
}

// makeGroup makes a cgroup below others, which pass the io controller on.
func makeGroup(t *testing.T, name string) string {
	t.Helper()
	dir := cgroupRoot
	for part := range strings.SplitSeq(name, "/") {
		if dir != cgroupRoot {
			write(t, filepath.Join(dir, "cgroup.subtree_control"), "+io")
		}
		dir = filepath.Join(dir, part)
		if exists(dir) {
			continue
		}
		must(t, os.Mkdir(dir, 0o755))
		made := dir
		t.Cleanup(func() {
			write(t, filepath.Join(made, "cgroup.kill"), "1")
			emptyGroup(t, made)
			must(t, removeGroup(made))
		})
	}
	return dir
}

// emptyGroup removes what is below a cgroup, as soon as its processes are gone.
func emptyGroup(t *testing.T, group string) {
	t.Helper()
	dir, err := unix.Open(group, unix.O_DIRECTORY, 0)
	must(t, err)
	defer unix.Close(dir)
	for try := 0; ; try++ {
		err := removeBelow(dir)
		if err == nil {
			return
		}
		if try == 100 {
			t.Fatalf("%s: %v", group, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func startAttacked(t *testing.T) *attacked {
	t.Helper()
	h := &attacked{t: t, d: newDisk(t, busyDisk), log: filepath.Join(t.TempDir(), "log")}
	h.d.use(t, elevator)
	for _, r := range ruled {
		makeGroup(t, r.group)
	}
	makeGroup(t, unitTenant)
	for _, dir := range []string{"/var/lib/docker", "/var/lib/containers", "/run/containerd", attackRules} {
		t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	}
	dockerHas(t, idNeighbour, "postgres", nil)
	dockerHas(t, idTenant, "batch-7", nil)
	crioHas(t, idPodDB, crioDB, "prod", "db-0", "postgres", nil)
	crioHas(t, idPodJob, crioJob, "tenant-b", "job", "miner", nil)
	podmanHas(t)
	write(t, filepath.Join(cgroupRoot, unitShop, "io.weight"), "300")
	putFile(t, attackRules, rulesOfAttacked)

	if os.Getenv("ISOLIO_CONTAINERS") != "" {
		h.beside = manyContainers(t)
		newCrowd(t, h.d, h.beside)
	}
	log, err := os.Create(h.log)
	must(t, err)
	defer log.Close()
	h.cmd = exec.Command("isolio", "daemon", "--every", "1h")
	h.cmd.Stdout, h.cmd.Stderr = log, log
	must(t, h.cmd.Start())
	t.Cleanup(func() {
		must(t, h.cmd.Process.Signal(unix.SIGTERM))
		if err := h.cmd.Wait(); err != nil {
			t.Errorf("the daemon: %v", err)
		}
		h.checkLog()
	})
	for _, r := range ruled {
		untilWeights(t, filepath.Join(cgroupRoot, r.group), "default "+r.weight)
	}
	return h
}

// metric is one of the daemon's own.
func (h *attacked) metric(t *testing.T, text, name string) float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			must(t, err)
			return n
		}
	}
	t.Fatalf("no %s among the metrics", name)
	return 0
}

// passes is how often the daemon has compared all weights.
func (h *attacked) passes(t *testing.T) float64 {
	t.Helper()
	return h.metric(t, metrics(t), "isolio_reconciles_total")
}

// looks has the daemon compare all weights again, as it does each minute, and waits
// until it has. It then sets a weight that is new, so it works.
func (h *attacked) looks(t *testing.T) {
	t.Helper()
	state := func() (reloaded, passes float64) {
		text := metrics(t)
		return h.metric(t, text, "isolio_config_last_reload_success_timestamp_seconds"), h.metric(t, text, "isolio_reconciles_total")
	}
	before, passed := state()
	must(t, h.cmd.Process.Signal(unix.SIGHUP))
	for tries := 0; ; tries++ {
		time.Sleep(500 * time.Millisecond) // an answer is given again for a second
		if reloaded, passes := state(); reloaded != before && passes != passed {
			break
		}
		if tries == 60 {
			t.Fatalf("the daemon does not look again; its log:\n%s", read(t, h.log))
		}
	}
	h.probes++
	probe := newGroup(t, fmt.Sprint("probe", h.probes, ".slice"))
	write(t, filepath.Join(probe, "io.weight"), fmt.Sprint(200+h.probes))
	untilWeights(t, probe, fmt.Sprint("default ", 200+h.probes))
}

// holds checks that the attack changed nothing for the others, nor made the tenant
// more than it is.
func (h *attacked) holds(t *testing.T) {
	t.Helper()
	h.looks(t)
	for _, r := range ruled {
		if got := weights(t, filepath.Join(cgroupRoot, r.group)); len(got) != 1 || got[0] != "default "+r.weight {
			t.Errorf("%s: weights %q, want %s", r.group, got, r.weight)
		}
	}
	text := metrics(t)
	printableText(t, "the metrics", text)
	for _, r := range ruled {
		if sample := fmt.Sprintf(`isolio_weight{cgroup="/%s",`, r.group); strings.Count(text, sample) > 1 {
			t.Errorf("%s has two weights among the metrics:\n%s", r.group, text)
		}
	}
	if h.cmd.ProcessState != nil || h.cmd.Process.Signal(syscall.Signal(0)) != nil {
		t.Fatal("the daemon has ended")
	}
}

// printableText fails on what acts on a terminal or ends a scrape.
func printableText(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) {
		t.Errorf("%s: is no UTF-8: %q", what, text)
	}
	for line := range strings.Lines(text) {
		for _, r := range strings.TrimSuffix(line, "\n") {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("%s: has %q in %q", what, r, line)
				break
			}
		}
	}
}

// logLine is how each line of the daemon's log begins.
var logLine = regexp.MustCompile(`^time=\S+ level=(?:INFO|WARN) msg=`)

// mostLogged is how many lines all of the attacks may have the daemon log, besides
// the weights that it writes.
const mostLogged = 60

func (h *attacked) checkLog() {
	log := read(h.t, h.log)
	printableText(h.t, "the daemon's log", log)
	others := 0
	for line := range strings.Lines(log) {
		if !logLine.MatchString(line) {
			h.t.Errorf("the daemon's log has %q", line)
		}
		if !strings.Contains(line, "msg=weight ") {
			others++
		}
	}
	h.t.Logf("the log has %d lines, %d besides weights", strings.Count(log, "\n"), others)
	if others > mostLogged {
		h.t.Errorf("%d lines besides weights, more than %d:\n%s", others, mostLogged, log)
	}
}

// A tenant with a delegated cgroup, with labels, annotations and names of its own,
// tries each attack that docs/security.md lists on neighbours of a booted machine,
// with the daemon as a user runs it. None may succeed.
func TestAttacks(t *testing.T) {
	loaded(t)
	loopback(t)
	h := startAttacked(t)
	own := filepath.Join(cgroupRoot, dockerTenant)
	a := startTenant(t, own, filepath.Join(cgroupRoot, unitTenant))
	for _, attack := range []struct {
		name string
		try  func(t *testing.T)
	}{
		{"what is not its own", func(t *testing.T) { a.does(t, "reach"); h.holds(t) }},
		{"labels and annotations of a neighbour", func(t *testing.T) { h.forgedIdentity(t) }},
		{"cgroups named after neighbours", func(t *testing.T) { a.does(t, "inside"); a.does(t, "fakes"); h.holds(t) }},
		{"forged marks", func(t *testing.T) { h.forgedMarks(t, a) }},
		{"no room for marks", func(t *testing.T) { a.does(t, "fill"); h.holds(t) }},
		{"hostile names", func(t *testing.T) { h.hostileNames(t, a) }},
		{"a cgroup of threads", func(t *testing.T) { a.does(t, "shift"); h.holds(t) }},
		{"a deep tree", func(t *testing.T) { a.does(t, "deep"); h.holds(t) }},
		{"many cgroups", func(t *testing.T) { a.does(t, "many"); h.holds(t); emptyGroup(t, filepath.Join(own, "many")) }},
		{"cgroups that each use the disk", h.manySources},
		{"a unit that counts from 0 again", h.countsAgain},
		{"cgroups that come and go", func(t *testing.T) { h.storm(t, a) }},
		{"broken files of engines", h.brokenFiles},
		{"large labels", h.largeLabels},
		{"scrapes that are not read", func(t *testing.T) { a.does(t, "stall"); h.holds(t) }},
		{"what an operator sees of it", h.operator},
		{"the disk", func(t *testing.T) { h.theDisk(t) }},
	} {
		t.Run(attack.name, attack.try)
	}
	fits(t, h.cmd.Process.Pid, h.beside)
}

// Engines write what the tenant chose beside what they know.
func (h *attacked) forgedIdentity(t *testing.T) {
	dockerHas(t, idTenant, "batch-7", forgedIdentity)
	crioHas(t, idPodJob, crioJob, "tenant-b", "job", "miner", forgedIdentity)
	h.holds(t)
}

// An operator changes the weight of a unit whose owner has forged a mark.
func (h *attacked) forgedMarks(t *testing.T, a *tenant) {
	unit := filepath.Join(cgroupRoot, unitTenant)
	write(t, filepath.Join(unit, "io.weight"), "800")
	untilWeights(t, unit, "default 800")
	a.does(t, "marks")
	write(t, filepath.Join(unit, "io.weight"), "20")
	untilWeights(t, unit, "default 20")
	h.holds(t)
}

// Names that are commands are written while the daemon stands still, and the
// operator pastes what --dry-run prints of them.
func (h *attacked) hostileNames(t *testing.T, a *tenant) {
	must(t, h.cmd.Process.Signal(unix.SIGSTOP))
	a.does(t, "names")
	commands := succeeds(t, "daemon", "--once", "--dry-run")
	printableText(t, "isolio daemon --dry-run", commands)
	paste := exec.Command("sh")
	paste.Dir, paste.Stdin = t.TempDir(), strings.NewReader(commands)
	if out, err := paste.CombinedOutput(); err != nil {
		t.Errorf("the commands fail: %v: %s\n%s", err, out, commands)
	}
	if left, err := filepath.Glob(filepath.Join(paste.Dir, "*")); err != nil || len(left) > 0 || exists("/HACKED") {
		t.Errorf("the commands make %q: %s", left, commands)
	}
	for _, name := range hostileNames {
		if got := weights(t, filepath.Join(cgroupRoot, dockerTenant)+"/"+name); got[0] != "default 300" {
			t.Errorf("%q: weights %q after the commands", name, got)
		}
	}
	must(t, h.cmd.Process.Signal(unix.SIGCONT))
	h.holds(t)
}

// sampled are the metrics of a reading of the kernel that begins after this is called.
func sampled(t *testing.T) string {
	t.Helper()
	time.Sleep(6 * time.Second) // the last reading is given again for 5 s
	return metrics(t)
}

// Of the cgroups that a tenant has, each of which has read, so many have metrics of their
// own, and the others count as the tenant's.
func (h *attacked) manySources(t *testing.T) {
	const many, apart = 150, 100
	for i := range many {
		readIn(t, makeGroup(t, fmt.Sprintf("%s/c%03d", unitTenant, i)), h.d)
	}
	text := sampled(t)
	if nr := strings.Count(text, `isolio_weight{cgroup="/`+unitTenant); nr != apart+1 {
		t.Errorf("%d of the unit's cgroups have metrics, want %d", nr, apart+1)
	}
	if all := h.metric(t, text, `isolio_requests_total{cgroup="/`+unitTenant+`",container="",device="`+h.d.name+`",direction="read"}`); all != many-apart {
		t.Errorf("the unit has %.0f requests of its cgroups, want %d", all, many-apart)
	}
	h.holds(t)
}

// A cgroup's counters begin at 0 when it is made again. What is told never goes back, and
// is no number around 2^64.
func (h *attacked) countsAgain(t *testing.T) {
	const name = "system.slice/again.service"
	requests := func() float64 {
		return h.metric(t, sampled(t), `isolio_requests_total{cgroup="/`+name+`",container="",device="`+h.d.name+`",direction="read"}`)
	}
	group := makeGroup(t, name)
	for range 10 {
		readIn(t, group, h.d)
	}
	if before := requests(); before != 10 {
		t.Errorf("%.0f requests, want 10", before)
	}
	must(t, removeGroup(group))
	must(t, os.Mkdir(group, 0o755))
	for range 3 {
		readIn(t, group, h.d)
	}
	if after := requests(); after != 13 {
		t.Errorf("%.0f requests after the unit began again, want 13", after)
	}
	h.holds(t)
}

// While cgroups come and go without a pause, the daemon does what it should, and not
// more often than it should.
func (h *attacked) storm(t *testing.T, a *tenant) {
	passes := h.passes(t)
	used := cpuOf(t, h.cmd.Process.Pid)
	a.begin("storm")
	start := time.Now()
	shop := filepath.Join(cgroupRoot, unitShop)
	write(t, filepath.Join(shop, "io.weight"), "350")
	untilWeights(t, shop, "default 350")
	took := time.Since(start)
	a.end(t, "storm")
	write(t, filepath.Join(shop, "io.weight"), "300")
	untilWeights(t, shop, "default 300")
	time.Sleep(time.Second)
	seconds := time.Since(start).Seconds()
	did := h.passes(t) - passes
	t.Logf("%.1f s with %.0f looks and %v of CPU; a weight took %v meanwhile", seconds, did, cpuOf(t, h.cmd.Process.Pid)-used, took)
	if did > math.Ceil(seconds)+1 {
		t.Errorf("%.0f looks in %.1f s", did, seconds)
	}
	if took > 3*time.Second && !onDebugKernel(t) {
		t.Errorf("a weight took %v", took)
	}
	h.holds(t)
}

// An engine is in the middle of its files, or its disk is full, or the files are none.
func (h *attacked) brokenFiles(t *testing.T) {
	whole := map[string]string{}
	for _, file := range []string{
		filepath.Join(dockerFiles, idNeighbour, "config.v2.json"), filepath.Join(dockerFiles, idTenant, "config.v2.json"),
		filepath.Join(dockerTasks, idNeighbour, "config.json"), filepath.Join(storageFiles, "containers.json"),
		filepath.Join(storageFiles, idPodDB, "userdata/config.json"),
	} {
		whole[file] = read(t, file)
	}
	for _, broken := range []func(file string) error{
		func(file string) error { return os.WriteFile(file, []byte(whole[file][:len(whole[file])/2]), 0o600) },
		func(file string) error { return os.Mkdir(file, 0o755) },
		func(file string) error { return unix.Mkfifo(file, 0o600) },
	} {
		for file := range whole {
			must(t, os.Remove(file))
			must(t, broken(file))
		}
		h.holds(t)
	}
	for file, text := range whole {
		must(t, os.Remove(file))
		putFile(t, file, text)
	}
	h.holds(t)
}

// Labels of a megabyte, and a file that is too large to be read: its container
// loses its name, and the rule for that.
func (h *attacked) largeLabels(t *testing.T) {
	before := statusKB(t, h.cmd.Process.Pid, "VmRSS:")
	labels := map[string]string{}
	for i := range 16 {
		labels[fmt.Sprint("label", i)] = strings.Repeat("x", 64<<10)
	}
	dockerHas(t, idTenant, "batch-7", labels)
	h.holds(t)
	text := append([]byte(`{"ID":"`+idTenant+`","Name":"/postgres","Config":{"Labels":{"x":"`), bytes.Repeat([]byte("y"), 9<<20)...)
	putFile(t, filepath.Join(dockerFiles, idTenant, "config.v2.json"), string(text)+`"}}}`)
	h.holds(t)
	dockerHas(t, idTenant, "batch-7", nil)
	h.holds(t)
	t.Logf("%d KB in memory, %d before", statusKB(t, h.cmd.Process.Pid, "VmRSS:"), before)
}

// Commands that an operator runs show nothing that acts on the terminal.
func (h *attacked) operator(t *testing.T) {
	for _, args := range [][]string{
		{"status", "--interval", "0"},
		{"status", "--interval", "0", "--json"},
		{"top", "--json", "--count", "1", "--interval", "100ms"},
		{"explain", dockerNeighbour},
		{"daemon", "--once", "--dry-run"},
	} {
		text := succeeds(t, args...)
		printableText(t, "isolio "+strings.Join(args, " "), text)
	}
	if out := succeeds(t, "explain", dockerNeighbour); !strings.Contains(out, "800") || !strings.Contains(out, "postgres") {
		t.Errorf("explain tells of the neighbour:\n%s", out)
	}
}

// What it is all for: the neighbour has its share of the disk against the tenant,
// whose cgroup inside weighs as much as there is.
func (h *attacked) theDisk(t *testing.T) {
	neighbour, inside := filepath.Join(cgroupRoot, dockerNeighbour), filepath.Join(cgroupRoot, dockerTenant, "leaf")
	for _, group := range []string{neighbour, inside} {
		startFio(t, h.d, group, "--time_based", "--runtime=600", "--rw=randread", "--iodepth=32").untilBusy(t)
	}
	bytesOf := func() (all [2]int) {
		all[0], all[1] = readBytes(t, neighbour, h.d), readBytes(t, inside, h.d)
		return all
	}
	before := bytesOf()
	time.Sleep(500 * time.Millisecond)
	after := bytesOf()
	got := float64(after[0]-before[0]) / float64(after[0]-before[0]+after[1]-before[1])
	t.Logf("the neighbour has %.2f %% of the disk, entitled to %.2f %%", 100*got, 100*800./810)
	if math.Abs(got-800./810) > 0.02 && !onDebugKernel(t) {
		t.Errorf("the neighbour has %.2f %% of the disk, entitled to %.2f %%", 100*got, 100*800./810)
	}
	for _, group := range []string{neighbour, inside} {
		write(t, filepath.Join(group, "cgroup.freeze"), "0")
	}
	h.holds(t)
}
