// SPDX-License-Identifier: MIT

package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"isolio/internal/must"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	idA = "1111111111111111111111111111111111111111111111111111111111111111"
	idB = "2222222222222222222222222222222222222222222222222222222222222222"
)

// A host is a tree of files with two containers that runc started without bfq,
// and a unit of systemd's, and a daemon for it.
type host struct {
	*Daemon
	t testing.TB
}

func newHost(t testing.TB, rules string) *host {
	t.Helper()
	h := &host{t: t}
	h.Daemon = &Daemon{Root: t.TempDir(), Every: time.Hour, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	h.RuleFile = filepath.Join(h.Root, "etc/isolio.toml")
	h.put("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n")
	h.put("sys/fs/cgroup/cgroup.subtree_control", "cpu io memory\n")
	h.put("sys/block/sda/dev", "8:0\n")
	h.put("sys/block/sda/size", "8388608\n")
	h.put("sys/block/sda/queue/scheduler", "none [kyber-fairness]\n")
	h.put("sys/block/sda/queue/iosched/share_by", "[bytes] iops time\n")
	h.group("docker/"+idA, 1920) // --blkio-weight 200
	h.group("docker/"+idB, 910)  // 100
	h.group("system.slice/backup.service", 250)
	h.group("idle", 100)
	h.put("var/lib/docker/containers/"+idA+"/config.v2.json", `{"ID":"`+idA+`","Name":"/web","Config":{"Labels":{"tier":"gold"}}}`)
	h.put("var/lib/docker/containers/"+idB+"/config.v2.json", `{"ID":"`+idB+`","Name":"/batch"}`)
	if rules != "" {
		h.put("etc/isolio.toml", rules)
	}
	must.OK(t, h.Open())
	return h
}

func (h *host) put(name, text string) {
	h.t.Helper()
	file := filepath.Join(h.Root, name)
	must.OK(h.t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.OK(h.t, os.WriteFile(file, []byte(text), 0o644))
}

// group makes a cgroup with an io.weight.
func (h *host) group(name string, ioWeight int) {
	h.t.Helper()
	h.put("sys/fs/cgroup/"+name+"/io.kyber.weight", "default 100\n")
	h.put("sys/fs/cgroup/"+name+"/io.weight", fmt.Sprintf("default %d\n", ioWeight))
}

// weights are the values in the groups' io.kyber.weight. A file keeps what is
// written to it, where the kernel would answer with its own words.
func (h *host) weights(groups ...string) string {
	h.t.Helper()
	var all []string
	for _, group := range groups {
		text, err := os.ReadFile(filepath.Join(h.Root, "sys/fs/cgroup", group, "io.kyber.weight"))
		must.OK(h.t, err)
		all = append(all, strings.TrimPrefix(strings.TrimSpace(string(text)), "default "))
	}
	return strings.Join(all, " ")
}

func (h *host) once() int {
	h.t.Helper()
	nr, err := h.Once(context.Background())
	must.OK(h.t, err)
	return nr
}

var everybody = []string{"docker/" + idA, "docker/" + idB, "system.slice/backup.service", "idle"}

// What was asked for is what weights are to each other: 200, 100, 250.
func TestOnce(t *testing.T) {
	h := newHost(t, "")
	if nr := h.once(); nr != 2 || h.weights(everybody...) != "200 100 250 100" {
		t.Errorf("%d written: %s", nr, h.weights(everybody...))
	}
	if nr := h.once(); nr != 0 {
		t.Errorf("%d written again", nr)
	}
	h.put("sys/fs/cgroup/system.slice/backup.service/io.weight", "default 100\n")
	if nr := h.once(); nr != 1 || h.weights("system.slice/backup.service") != "100" {
		t.Errorf("IOWeight taken back: %d written: %s", nr, h.weights(everybody...))
	}
}

// A daemon that was killed is replaced by one that knows as much.
func TestAnotherDaemonGoesOn(t *testing.T) {
	h := newHost(t, "[[rule]]\nname = \"web\"\nweight = 700\n")
	h.once()
	h.put("etc/isolio.toml", "")
	h.put("sys/fs/cgroup/docker/"+idB+"/io.kyber.weight", "42\n") // by hand
	next := &Daemon{Root: h.Root, RuleFile: h.RuleFile, Every: h.Every, Log: h.Log}
	must.OK(t, next.Open())
	if _, err := next.Once(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := h.weights(everybody...); got != "200 42 250 100" {
		t.Errorf("weights %s, want the one asked for, the one set by hand, and the others", got)
	}
}

// What a specification asks for holds when systemd resets the files.
func TestDaemonReload(t *testing.T) {
	h := newHost(t, "")
	h.put("var/lib/docker/containers/"+idA+"/hostconfig.json", `{"BlkioWeight":200}`)
	h.once()
	h.put("sys/fs/cgroup/docker/"+idA+"/io.weight", "default 100\n")
	if nr := h.once(); nr != 0 || h.weights(everybody[0]) != "200" {
		t.Errorf("%d written: %s", nr, h.weights(everybody[0]))
	}
	h.put("sys/fs/cgroup/docker/"+idA+"/io.weight", "default 2929\n") // 300
	if nr := h.once(); nr != 1 || h.weights(everybody[0]) != "300" {
		t.Errorf("an update: %d written: %s", nr, h.weights(everybody[0]))
	}
}

func TestRules(t *testing.T) {
	h := newHost(t, `
[[rule]]
label = "tier=gold"
weight = 900
[[rule]]
name = "*"
weight = 50
[[rule]]
unit = "backup.*"
weight = 5
[[rule]]
unit = "idle"
device = "sda"
weight = 77
[[rule]]
unit = "idle"
device = "sdb"
weight = 78
`)
	h.once()
	if got := h.weights(everybody...); got != "900 50 5 8:0 77" {
		t.Errorf("weights %s", got)
	}
}

// The annotations that containerd's pod_annotations passes on, and CRI-O keeps, tell
// what a pod asks for without NRI.
func TestAnnotationsInFiles(t *testing.T) {
	h := newHost(t, "[[rule]]\npod = \"batch/*\"\ndefault = 50\nmax_weight = 200\n")
	const slice = "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod"
	const podA, podB = slice + "11111111_1111_1111_1111_111111111111.slice", slice + "22222222_2222_2222_2222_222222222222.slice"
	put := func(pod, uid, id, name, kind, more string) {
		t.Helper()
		group := pod + "/cri-containerd-" + id + ".scope"
		h.group(pod, 100)
		h.group(group, 100)
		h.put("run/containerd/io.containerd.runtime.v2.task/k8s.io/"+id+"/config.json", `{"annotations":{"io.kubernetes.cri.container-type":"`+kind+
			`","io.kubernetes.cri.container-name":"`+name+`","io.kubernetes.cri.sandbox-namespace":"batch","io.kubernetes.cri.sandbox-name":"`+uid+
			`","io.kubernetes.cri.sandbox-uid":"`+uid+`"`+more+`},"linux":{"cgroupsPath":"`+filepath.Base(pod)+`:cri-containerd:`+id+`"}}`)
	}
	const asks = `,"isolio.dev/weight":"300","isolio.dev/weight.sort":"70"`
	put(podA, "a", strings.Repeat("3", 64), "", "sandbox", asks)
	put(podA, "a", strings.Repeat("4", 64), "sort", "container", asks)
	put(podB, "b", strings.Repeat("5", 64), "", "sandbox", `,"isolio.dev/weight":"high"`)
	log := h.logged()
	if nr := h.once(); nr != 5 || h.weights(podA, podA+"/cri-containerd-"+strings.Repeat("4", 64)+".scope", podB) != "200 70 50" {
		t.Errorf("%d written: %s", nr, h.weights(podA, podA+"/cri-containerd-"+strings.Repeat("4", 64)+".scope", podB))
	}
	h.once()
	for _, want := range []string{
		`msg=annotation of=` + podA + ` warning="batch/a: annotation isolio.dev/weight: 300; 200 is the most by rule 1"`,
		`msg=annotation of=` + podB + ` warning="batch/b: annotation isolio.dev/weight: \"high\" is not a weight; allowed: an integer 1..10000"`,
	} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("not once: %s\n%s", want, log)
		}
	}
	if now := h.health.now(); now.refused != 2 || now.problems != 0 {
		t.Errorf("health %+v", now)
	}
}

func TestPreviewChangesNothing(t *testing.T) {
	h := newHost(t, "[[rule]]\nname = \"web\"\nweight = 700\n")
	changes, err := h.Preview()
	if err != nil || len(changes) != 2 || changes[0].Value != "700" || changes[0].Why != "rule 1" || changes[1].Why != "IOWeight=250" {
		t.Errorf("Preview = %+v, %v", changes, err)
	}
	if got := h.weights(everybody...); got != "100 100 100 100" {
		t.Errorf("weights %s", got)
	}
	if got, err := h.marks.Get(everybody[0]); got != nil || err != nil {
		t.Errorf("mark %v", got)
	}
}

// A file with a mistake leaves the rules in force.
func TestReload(t *testing.T) {
	h := newHost(t, "[[rule]]\nname = \"web\"\nweight = 700\n")
	h.once()
	h.put("etc/isolio.toml", "[[rule]]\nname = \"web\"\nweigth = 800\n")
	err := h.Reload()
	if want := h.RuleFile + ":3: rule.weigth: unknown key; allowed: "; err == nil || !strings.HasPrefix(err.Error(), want) ||
		!strings.HasSuffix(err.Error(), "; the rules in force stay") {
		t.Errorf("Reload = %v", err)
	}
	h.put("sys/fs/cgroup/docker/"+idA+"/io.kyber.weight", "100\n") // a module loaded again
	if h.once(); h.weights(everybody[0]) != "700" {
		t.Errorf("weight %s after a reload that failed", h.weights(everybody[0]))
	}
	h.put("etc/isolio.toml", "[[rule]]\nname = \"web\"\nweight = 800\n")
	must.OK(t, h.Reload())
	if h.once(); h.weights(everybody[0]) != "800" {
		t.Errorf("weight %s after a reload", h.weights(everybody[0]))
	}
}

// Without the module there is nothing to write, until it is loaded.
func TestWithoutTheModule(t *testing.T) {
	h := newHost(t, "")
	for _, group := range everybody {
		must.OK(t, os.Remove(filepath.Join(h.Root, "sys/fs/cgroup", group, "io.kyber.weight")))
	}
	if nr := h.once(); nr != 0 {
		t.Errorf("%d written", nr)
	}
	h.put("sys/fs/cgroup/"+everybody[0]+"/io.kyber.weight", "default 100\n")
	if nr := h.once(); nr != 1 {
		t.Errorf("%d written after it was loaded", nr)
	}
}

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 600 {
		if is() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("not within 30 s: %s", what)
}

// Containers that come are seen by inotify, as are weights that are written and
// signals; looking again comes only after an hour.
func TestRun(t *testing.T) {
	h := newHost(t, "")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	eventually(t, "weights of the cgroups that are there", func() bool { return h.weights(everybody...) == "200 100 250 100" })
	h.group("system.slice/new.service", 600)
	eventually(t, "the weight of a new unit", func() bool { return h.weights("system.slice/new.service") == "600" })
	h.put("sys/fs/cgroup/system.slice/new.service/io.weight", "default 650\n")
	eventually(t, "another weight", func() bool { return h.weights("system.slice/new.service") == "650" })
	h.put("etc/isolio.toml", "[[rule]]\nunit = \"new.*\"\nweight = 7\n")
	must.OK(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	eventually(t, "the weight of a rule", func() bool { return h.weights("system.slice/new.service") == "7" })
	must.OK(t, os.RemoveAll(filepath.Join(h.Root, "sys/fs/cgroup/system.slice/new.service")))
	h.group("system.slice/other.service", 800)
	eventually(t, "another one's weight, after it went", func() bool { return h.weights("system.slice/other.service") == "800" })
	h.group("system.slice/new.service", 600)
	eventually(t, "its weight when it comes again", func() bool { return h.weights("system.slice/new.service") == "7" })
	h.put("sys/fs/cgroup/system.slice/other.service/io.weight", "default 850\n")
	eventually(t, "the other's, which is still watched", func() bool { return h.weights("system.slice/other.service") == "850" })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMetrics(t *testing.T) {
	h := newHost(t, "")
	stat := func(bytes, ios int) {
		h.put("sys/fs/cgroup/docker/"+idA+"/io.kyber.stat",
			fmt.Sprintf("8:0 rbytes=%d wbytes=0 rios=%d wios=0 throttled_usec=1500000 weight=200 share_ppm=666666\n", bytes, ios))
	}
	stat(0, 0)
	h.put("sys/fs/cgroup/docker/"+idA+"/inner/io.kyber.stat", "8:0 rbytes=4096 wbytes=512 rios=3 wios=1 throttled_usec=500000 weight=100 share_ppm=0\n")
	h.put("sys/fs/cgroup/docker/"+idA+"/inner/io.kyber.latency", "8:0 r16384=1 r20480=1 rmore=1 w2048=1\n")
	m := NewMetrics(h.Root, h.tree, h.finder)
	scrape := func() string {
		recorder := httptest.NewRecorder()
		m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
		return recorder.Body.String()
	}
	got := scrape()
	of := `{cgroup="/docker/` + idA + `",container="web",device="sda"`
	for _, want := range []string{
		"isolio_weight" + of + "} 200",
		"isolio_entitled_share_ratio" + of + "} 0.666666",
		"isolio_served_total" + of + "} 0",
		"isolio_throttled_seconds_total" + of + "} 2",
		"isolio_bytes_total" + of + `,direction="read"} 4096`,
		"isolio_requests_total" + of + `,direction="write"} 1`,
		"isolio_request_duration_seconds_bucket" + of + `,direction="read",le="1.6384e-05"} 1`,
		"isolio_request_duration_seconds_bucket" + of + `,direction="read",le="6.5536e-05"} 2`,
		"isolio_request_duration_seconds_bucket" + of + `,direction="read",le="17.179869184"} 2`,
		"isolio_request_duration_seconds_bucket" + of + `,direction="read",le="+Inf"} 3`,
		"isolio_request_duration_seconds_count" + of + `,direction="write"} 1`,
		"isolio_request_duration_seconds_sum" + of + `,direction="write"} 1.92e-06`,
		"process_resident_memory_bytes",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "inner") {
		t.Errorf("a cgroup inside a container has metrics of its own:\n%s", got)
	}
	stat(1<<20, 10)
	if again := scrape(); !strings.Contains(again, "isolio_bytes_total"+of+`,direction="read"} 4096`) {
		t.Errorf("another scrape has the kernel read again at once:\n%s", again)
	}
	m.at = m.at.Add(-leastInterval) // as if it had passed
	served := "isolio_served_total" + of + "} 1.048576e+06\n"
	if got := scrape(); !strings.Contains(got, served) {
		t.Errorf("no %q in\n%s", served, got)
	}
	// What a cgroup inside did stays when it goes: counters never go back.
	must.OK(t, os.RemoveAll(filepath.Join(h.Root, "sys/fs/cgroup/docker/"+idA+"/inner")))
	m.at = m.at.Add(-leastInterval)
	got = scrape()
	for _, want := range []string{
		"isolio_bytes_total" + of + `,direction="read"} 1.052672e+06`,
		"isolio_throttled_seconds_total" + of + "} 2",
		"isolio_request_duration_seconds_count" + of + `,direction="read"} 3`,
		served,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("after the cgroup inside went, no %q in\n%s", want, got)
		}
	}
}

// docs/metrics.md has each metric, and none that there is not.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metrics.md")
	must.OK(t, err)
	named := map[string]bool{}
	for _, name := range regexp.MustCompile("isolio_[a-z_]+").FindAllString(string(text), -1) {
		named[name] = true
	}
	h := newHost(t, "")
	descs := make(chan *prometheus.Desc, 100)
	NewMetrics(h.Root, h.tree, h.finder).Describe(descs)
	(&ledger{}).Describe(descs)
	close(descs)
	var all []string
	for i := range families {
		all = append(all, metricPrefix+families[i].name)
	}
	fqName := regexp.MustCompile(`fqName: "([^"]+)"`)
	for desc := range descs {
		all = append(all, fqName.FindStringSubmatch(desc.String())[1])
	}
	for _, name := range all {
		if !named[name] {
			t.Errorf("no %s in docs/metrics.md", name)
		}
		delete(named, name)
	}
	if len(named) > 0 {
		t.Errorf("in docs/metrics.md, but no metrics: %v", named)
	}
}

// Metrics are served where the rules say, also after a reload. The daemon sets weights
// even if the address is taken.
func TestServes(t *testing.T) {
	listen := func() net.Listener {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.OK(t, err)
		return l
	}
	taken, free := listen(), listen()
	first, second := taken.Addr().String(), free.Addr().String()
	serves := func(address string) bool {
		response, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		return err == nil && strings.Contains(string(text), "process_resident_memory_bytes")
	}
	h := newHost(t, "metrics = \""+first+"\"\n")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	eventually(t, "weights, with the address taken", func() bool { return h.weights(everybody...) == "200 100 250 100" })
	reload := func(address string) {
		t.Helper()
		h.put("etc/isolio.toml", "metrics = \""+address+"\"\n")
		must.OK(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	}
	taken.Close()
	reload(first)
	eventually(t, "metrics, with the address free", func() bool { return serves(first) })
	free.Close()
	reload(second)
	eventually(t, "metrics elsewhere", func() bool { return serves(second) && !serves(first) })
	reload("")
	eventually(t, "no metrics", func() bool { return !serves(second) })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Just where something happened is looked at: the weight that was written, what
// is new and what is in it, and containers of which more is known than before.
func TestScope(t *testing.T) {
	h := newHost(t, "")
	h.once()
	look := func(at scope) int {
		t.Helper()
		nr, err := h.write(context.Background(), at)
		must.OK(t, err)
		return nr
	}
	h.put("sys/fs/cgroup/system.slice/backup.service/io.weight", "default 300\n")
	h.put("sys/fs/cgroup/docker/"+idA+"/io.weight", "default 2929\n") // 300
	var at scope
	at.add("system.slice/backup.service")
	if nr := look(at); nr != 1 || h.weights(everybody...) != "200 100 300 100" {
		t.Errorf("one weight was written: %d, weights %s", nr, h.weights(everybody...))
	}
	h.group("new.slice/a.service", 500)
	if nr := look(scope{moved: true}); nr != 1 || h.weights("new.slice/a.service", everybody[0]) != "500 200" {
		t.Errorf("a new group: %d, weights %s", nr, h.weights("new.slice/a.service", everybody[0]))
	}
	h.put("sys/fs/cgroup/new.slice/a.service/io.weight", "default 600\n")
	at = scope{moved: true}
	at.add("new.slice") // made again
	if nr := look(at); nr != 1 || h.weights("new.slice/a.service", everybody[0]) != "600 200" {
		t.Errorf("made again, with what is in it: %d, weights %s", nr, h.weights("new.slice/a.service", everybody[0]))
	}
	h.put("var/lib/docker/containers/"+idA+"/hostconfig.json", `{"BlkioWeight":300}`)
	if nr := look(scope{all: true}); nr != 1 || h.weights(everybody...) != "300 100 300 100" {
		t.Errorf("more is known of a container: %d, weights %s", nr, h.weights(everybody...))
	}
	if nr := look(scope{all: true}); nr != 0 {
		t.Errorf("then all were looked at: %d written", nr)
	}
}

// crun writes a container's weight to a cgroup inside of its scope as well, which
// has no rivals there.
func TestCrunsInnerGroup(t *testing.T) {
	h := newHost(t, "")
	id := strings.Repeat("3", 64)
	scope := "machine.slice/libpod-" + id + ".scope"
	h.group(scope, 1200) // --blkio-weight 200
	h.group(scope+"/container", 1920)
	h.group(scope+"/other", 300)
	h.put("run/crun/"+id+"/status", "{}")
	h.once()
	if got := h.weights(scope, scope+"/container", scope+"/other"); got != "200 100 300" {
		t.Errorf("weights %s", got)
	}
}

// A user's own containers have their weights by the same scales.
func TestRootless(t *testing.T) {
	h := newHost(t, "")
	id := strings.Repeat("3", 64)
	scope := "user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope"
	h.group(scope, 1200) // --blkio-weight 200
	h.put("run/user/1000/crun/"+id+"/status", "{}")
	h.once()
	if got := h.weights(scope); got != "200" {
		t.Errorf("weight %s", got)
	}
}

// An older crun gives a weight that is changed later to that cgroup alone, of which
// inotify tells.
func TestInnerGroupIsUpdated(t *testing.T) {
	h := newHost(t, "")
	id := strings.Repeat("3", 64)
	scope := "machine.slice/libpod-" + id + ".scope"
	h.group(scope, 1200)
	h.group(scope+"/container", 1920)
	h.put("run/crun/"+id+"/status", "{}")
	h.put("var/lib/containers/storage/overlay-containers/"+id+"/userdata/config.json", `{"linux":{"resources":{"blockIO":{"weight":200}}}}`)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	eventually(t, "the weight at the start", func() bool { return h.weights(scope) == "200" })
	h.put("sys/fs/cgroup/"+scope+"/container/io.weight", "default 2930\n")
	eventually(t, "another weight", func() bool { return h.weights(scope, scope+"/container") == "300 100" })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A disk that gets the scheduler, or loses it, has everything looked at.
func TestOtherDisks(t *testing.T) {
	h := newHost(t, "")
	if !h.otherDisks() {
		t.Error("the first disk is not seen")
	}
	h.once()
	if h.otherDisks() {
		t.Error("the same disk is another one")
	}
	h.put("sys/block/sda/queue/scheduler", "[none] kyber-fairness\n")
	if !h.otherDisks() {
		t.Error("a disk that lost the scheduler is not seen")
	}
}
