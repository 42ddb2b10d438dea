// SPDX-License-Identifier: MIT

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"golang.org/x/sys/unix"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/rule"
	"isolio/internal/must"
	"isolio/internal/plan"
	"isolio/internal/testtree"
)

// logged has the daemon's log in a buffer.
func (h *host) logged() *bytes.Buffer {
	var log bytes.Buffer
	h.Log = slog.New(slog.NewTextHandler(&log, nil))
	return &log
}

// A mark that is damaged costs its cgroup alone: that keeps its weight, which is told and not taken for
// an operator's.
func TestADamagedMark(t *testing.T) {
	for _, damaged := range []string{"", `{"cgroup": "docker/`, `{"cgroup": "docker/` + idA + `", "weights": {"default": {"weight": "x"}}}`} {
		h := newHost(t, "")
		log := h.logged()
		h.once()
		marks, err := filepath.Glob(filepath.Join(h.Root, "run/isolio/marks/*.json"))
		if err != nil || len(marks) != 3 {
			t.Fatal(marks, err)
		}
		for _, name := range marks {
			if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), idA) {
				continue
			}
			testtree.File(t, name, damaged)
		}
		h.put("sys/fs/cgroup/docker/"+idA+"/io.weight", "default 2910\n") // --blkio-weight 300
		h.put("sys/fs/cgroup/docker/"+idB+"/io.weight", "default 1920\n")
		if err := h.Open(); err != nil { // another daemon
			t.Fatal(err)
		}
		if _, err := h.Once(context.Background()); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%q: %v", damaged, err)
		}
		if got := h.weights("docker/"+idA, "docker/"+idB); got != "200 200" {
			t.Errorf("%q: weights %s, want 200 200", damaged, got)
		}
		if got := strings.Count(log.String(), "run/isolio/marks/"); got != 1 || h.problems() != 1 {
			t.Errorf("%q: %d problems; the log tells %d times:\n%s", damaged, h.problems(), got, log)
		}
	}
}

// What is wrong with one cgroup or one container costs that one only.
func TestOneFaultCostsOneCgroup(t *testing.T) {
	h := newHost(t, "")
	log := h.logged()
	h.group("system.slice/bad.service", 300)
	h.put("sys/fs/cgroup/system.slice/bad.service/io.weight", "no weight at all\n")
	h.group("system.slice/worse.service", 300)
	file := filepath.Join(h.Root, "sys/fs/cgroup/system.slice/worse.service/io.kyber.weight")
	must.OK(t, errors.Join(os.Remove(file), os.Mkdir(file, 0o755)))
	must.OK(t, os.MkdirAll(filepath.Join(h.Root, "var/lib/docker/containers/"+strings.Repeat("3", 64)+"/config.v2.json"), 0o755))
	for range 2 {
		_, err := h.Once(context.Background())
		if err == nil || !strings.Contains(err.Error(), "2 of 9 cgroups keep the weights that they have; the first: system.slice/bad.service: ") {
			t.Errorf("Once = %v", err)
		}
		if got := h.weights(everybody...); got != "200 100 250 100" {
			t.Errorf("weights %s", got)
		}
	}
	for _, once := range []string{"bad.service", "worse.service", "config.v2.json"} {
		if nr := strings.Count(log.String(), "of="+filepath.Join("system.slice", once)) + strings.Count(log.String(), once+" warning="); nr != 1 {
			t.Errorf("%s is logged %d times in\n%s", once, nr, log)
		}
	}
	h.put("sys/fs/cgroup/system.slice/bad.service/io.weight", "default 300\n")
	must.OK(t, errors.Join(os.Remove(file), os.WriteFile(file, []byte("default 100\n"), 0o644)))
	if h.once(); h.weights("system.slice/bad.service", "system.slice/worse.service") != "300 300" || len(h.with(cannotRead)) != 0 {
		t.Errorf("mended: weights %s, told %v", h.weights("system.slice/bad.service", "system.slice/worse.service"), h.told)
	}
}

// full is a machine that takes no weight.
type full struct{ plan.OS }

func (full) Write(string, string) error { return syscall.ENOSPC }

// A weight that the kernel refuses is an error of `isolio daemon --once`.
func TestOnceTellsOfAWeightThatWasNotWritten(t *testing.T) {
	h := newHost(t, "")
	h.kernel = full{}
	nr, err := h.Once(context.Background())
	if nr != 0 || err == nil || !strings.Contains(err.Error(), "2 of 6 cgroups keep the weights that they have") {
		t.Errorf("Once = %d, %v", nr, err)
	}
	if now := h.health.now(); now.writeErrors != 2 || now.writes != 0 || now.problems == 0 {
		t.Errorf("health %+v", now)
	}
}

// A file of an engine that cannot be parsed takes no weight away.
func TestAHalfWrittenFileTakesNoWeight(t *testing.T) {
	h := newHost(t, "[[rule]]\nname = \"db\"\nweight = 700\n")
	id := strings.Repeat("3", 64)
	scope := "machine.slice/libpod-" + id + ".scope"
	const list = "var/lib/containers/storage/overlay-containers/containers.json"
	h.group(scope, 405) // --blkio-weight 50
	h.put(list, `[{"id":"`+id+`","names":["db"]}]`)
	h.put("var/lib/containers/storage/overlay-containers/"+id+"/userdata/config.json", `{}`)
	if h.once(); h.weights(scope) != "700" {
		t.Fatalf("weight %s", h.weights(scope))
	}
	h.put(list, `[{"id":"`+id)
	if h.once(); h.weights(scope) != "700" {
		t.Errorf("weight %s with half a file", h.weights(scope))
	}
	// A daemon that starts just now knows nothing, and changes nothing.
	next := &Daemon{Root: h.Root, RuleFile: h.RuleFile, Every: h.Every, Log: h.Log}
	must.OK(t, next.Open())
	if _, err := next.Once(context.Background()); err != nil || h.weights(scope) != "700" {
		t.Errorf("weight %s of a daemon that never read the file, %v", h.weights(scope), err)
	}
	h.put(list, `[]`)
	if _, err := next.Once(context.Background()); err != nil || h.weights(scope) != "50" {
		t.Errorf("weight %s of one without a name, %v", h.weights(scope), err)
	}
}

// A tenant's cgroup with the name of a neighbour's container takes nothing from it.
func TestANestedCgroupTakesNoWeight(t *testing.T) {
	h := newHost(t, "[[rule]]\nname = \"batch\"\nweight = 800\n")
	h.once()
	inner := "docker/" + idA + "/docker-" + idB + ".scope" // before docker/idB in the tree
	h.group(inner, 100)
	if h.once(); h.weights("docker/"+idB, inner) != "800 100" {
		t.Errorf("weights %s", h.weights("docker/"+idB, inner))
	}
}

// The owner of a cgroup's directory can write its attributes, and so cannot have an
// old weight taken for an operator's.
func TestMarksCannotBeForged(t *testing.T) {
	h := newHost(t, "")
	const unit = "system.slice/backup.service"
	h.put("sys/fs/cgroup/"+unit+"/io.weight", "default 800\n")
	h.once()
	dir := h.tree.Path(unit)
	if err := unix.Setxattr(dir, "user.isolio.weight", []byte(`{"default":{"weight":20,"before":1}}`), 0); errors.Is(err, unix.ENOTSUP) {
		t.Log("the temporary directory has no attributes: files beside the weight are tried only")
	} else if err != nil {
		t.Fatal(err)
	}
	h.put("sys/fs/cgroup/"+unit+"/mark.json", `{"default":{"weight":20,"before":1}}`)
	h.put("sys/fs/cgroup/"+unit+"/io.weight", "default 20\n")
	if h.once(); h.weights(unit) != "20" {
		t.Errorf("weight %s, want what was asked for last", h.weights(unit))
	}
}

// A place for marks that is full or missing keeps no cgroup from a weight.
func TestWithoutAPlaceForMarks(t *testing.T) {
	h := newHost(t, "")
	log := h.logged()
	h.put("run/isolio", "a file")
	if nr := h.once(); nr != 2 || h.weights(everybody...) != "200 100 250 100" {
		t.Errorf("%d written: %s", nr, h.weights(everybody...))
	}
	if nr := h.once(); nr != 0 || strings.Count(log.String(), "only this process remembers") != 1 {
		t.Errorf("%d written again; log\n%s", nr, log)
	}
}

// A tenant that makes cgroups without end does not use up memory and watches.
func TestCgroupsOfATenantAreLimited(t *testing.T) {
	h := newHost(t, "")
	log := h.logged()
	for i := range mostInside + 5 {
		must.OK(t, os.MkdirAll(h.tree.Path("docker/"+idA, fmt.Sprintf("c%04d", i)), 0o755))
	}
	if h.once(); h.weights(everybody...) != "200 100 250 100" || len(h.groups) != mostInside+6 {
		t.Errorf("%d cgroups, weights %s", len(h.groups), h.weights(everybody...))
	}
	if !strings.Contains(log.String(), "has 1005 cgroups inside: 5 keep the weights that they have") {
		t.Errorf("log\n%s", log)
	}
}

// A path that is longer than the kernel takes stops no other cgroup.
func TestADeepTree(t *testing.T) {
	h := newHost(t, "")
	at, err := unix.Open(h.tree.Path("docker/"+idA), unix.O_DIRECTORY, 0)
	must.OK(t, err)
	name := strings.Repeat("d", 200)
	for range 30 {
		err := unix.Mkdirat(at, name, 0o755)
		next, openErr := unix.Openat(at, name, unix.O_DIRECTORY, 0)
		must.OK(t, errors.Join(err, openErr, unix.Close(at)))
		at = next
	}
	unix.Close(at)
	if _, err := os.Stat(h.tree.Path("docker/"+idA, strings.Repeat(name+"/", 30))); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Fatalf("the path is not too long: %v", err)
	}
	if _, err := h.Once(context.Background()); err != nil || h.weights(everybody...) != "200 100 250 100" {
		t.Errorf("%v: weights %s", err, h.weights(everybody...))
	}
}

// Without an inotify instance the daemon looks from time to time.
func TestRunWithoutInotify(t *testing.T) {
	newWatcher = func() (*fsnotify.Watcher, error) { return nil, syscall.EMFILE }
	defer func() { newWatcher = fsnotify.NewWatcher }()
	h := newHost(t, "")
	h.Every = 100 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	eventually(t, "weights of the cgroups that are there", func() bool { return h.weights(everybody...) == "200 100 250 100" })
	h.group("system.slice/new.service", 600)
	eventually(t, "the weight of a new unit", func() bool { return h.weights("system.slice/new.service") == "600" })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// One daemon keeps the weights of a machine.
func TestLock(t *testing.T) {
	h := newHost(t, "")
	unlock, err := h.lock(context.Background())
	must.OK(t, err)
	if err := h.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "another isolio daemon runs") {
		t.Errorf("a second daemon: %v", err)
	}
	unlock()
	unlock, err = h.lock(context.Background())
	must.OK(t, err)
	unlock()
}

// scrape answers a scrape of a machine whose cgroups have done something.
func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	if recorder.Code != http.StatusOK {
		t.Errorf("status %d:\n%s", recorder.Code, recorder.Body)
	}
	return recorder.Body.String()
}

// Names that are no UTF-8, look the same, or act on a terminal cost no other name
// its metrics; nor does a cgroup whose counters make no sense.
func TestMetricsOfHostileNames(t *testing.T) {
	h := newHost(t, "")
	const stat = "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 throttled_usec=0 weight=200 share_ppm=0\n"
	for _, name := range []string{"docker/" + idA, "lxc/\xff", `lxc/\xff`, "lxc/\x1b]0;x\a", "lxc/\"},\n", "lxc/" + strings.Repeat("n", 200)} {
		h.put("sys/fs/cgroup/"+name+"/io.kyber.stat", stat)
	}
	h.put("sys/fs/cgroup/lxc/broken/io.kyber.stat", "8:0 rbytes=many\n")
	h.put("sys/fs/cgroup/lxc/torn/io.kyber.stat", stat)
	h.put("sys/fs/cgroup/lxc/torn/io.kyber.latency", "8:0 nothing=1\n")
	m := NewMetrics(h.Root, h.tree, h.finder)
	got := scrape(t, m)
	for _, want := range []string{
		`isolio_weight{cgroup="/docker/` + idA + `",container="web",device="sda"} 200`,
		`isolio_weight{cgroup="/lxc/\\xff",container="",device="sda"} 200`,
		`isolio_weight{cgroup="/lxc/\\x1b]0;x\\x07",container="",device="sda"} 200`,
		`isolio_weight{cgroup="/lxc/torn",container="",device="sda"} 200`,
		"isolio_metrics_skipped 3", // broken, torn's histogram, and one of two that look the same
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	// That is what Prometheus' own parser takes.
	problems, err := promlint.New(strings.NewReader(got)).Lint()
	if err != nil {
		t.Errorf("%v in\n%s", err, got)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// sampleOf is the value of a metric, "" if it is not there.
func sampleOf(text, metric string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, metric+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// A tenant that makes cgroups without end, each of which uses the disk, does not use up
// memory: what it does is counted, and most of it as the tenant's.
func TestMetricsOfATenantAreLimited(t *testing.T) {
	for _, tenant := range []string{"user.slice/user-1000.slice/user@1000.service", "lxc.payload.box", "system.slice/worker.service"} {
		h := newHost(t, "")
		const stat = "8:0 rbytes=%d wbytes=0 rios=1 wios=0 throttled_usec=0 weight=100 share_ppm=0\n"
		h.put("sys/fs/cgroup/"+tenant+"/io.kyber.stat", fmt.Sprintf(stat, 7))
		inside := func(i int) string { return fmt.Sprintf("%s/c%04d", tenant, i) }
		const many = mostInside + 200
		for i := range many {
			h.put("sys/fs/cgroup/"+inside(i)+"/io.kyber.stat", fmt.Sprintf(stat, 1000))
		}
		m := NewMetrics(h.Root, h.tree, h.finder)
		bytesOf := func(text, cgroup string) string {
			return sampleOf(text, `isolio_bytes_total{cgroup="/`+cgroup+`",container="",device="sda",direction="read"}`)
		}
		got := scrape(t, m)
		if nr := strings.Count(got, "\nisolio_weight{"); nr != mostApart+1 {
			t.Errorf("%s: %d cgroups have metrics, want %d", tenant, nr, mostApart+1)
		}
		if own, all := bytesOf(got, inside(0)), bytesOf(got, tenant); own != "1000" || all != fmt.Sprint(7+1000*(mostInside-mostApart)) {
			t.Errorf("%s: %s bytes, and %s inside", tenant, all, own)
		}
		if got := sampleOf(got, "isolio_metrics_skipped"); got != "1" {
			t.Errorf("%s: %s skipped, want the tenant", tenant, got)
		}
		// One that goes makes room, and the others keep what they have.
		must.OK(t, os.RemoveAll(h.tree.Path(inside(1))))
		h.put("sys/fs/cgroup/"+inside(2)+"/io.kyber.stat", fmt.Sprintf(stat, 1500))
		for i := range 2 { // what the next one did before counts as the tenant's still
			h.put("sys/fs/cgroup/"+inside(mostApart)+"/io.kyber.stat", strings.Replace(fmt.Sprintf(stat, 1000+100*i), "rios=1", fmt.Sprint("rios=", 1+i), 1))
			m.at = m.at.Add(-leastInterval)
			got = scrape(t, m)
		}
		if bytesOf(got, inside(2)) != "1500" || bytesOf(got, inside(1)) != "" || bytesOf(got, inside(mostApart)) != "100" {
			t.Errorf("%s: after one has gone %q, %q and %q bytes, want 1500, none and 100", tenant, bytesOf(got, inside(2)), bytesOf(got, inside(1)), bytesOf(got, inside(mostApart)))
		}
	}
}

// A rule says which containers and units have metrics of their own. What the others do is
// counted together, so that shares of the disk stay right.
func TestRulesLimitMetrics(t *testing.T) {
	h := newHost(t, `
[[rule]]
name = "web"
metrics = true

[[rule]]
unit = "backup"
weight = 300
metrics = false

[[rule]]
name = "*"
metrics = false
`)
	const stat = "8:0 rbytes=%d wbytes=0 rios=1 wios=0 throttled_usec=0 weight=100 share_ppm=250000\n"
	for group, bytes := range map[string]int{"docker/" + idA: 1000, "docker/" + idB: 200, "docker/" + idB + "/inner": 50, "system.slice/backup.service": 30, "idle": 4} {
		h.put("sys/fs/cgroup/"+group+"/io.kyber.stat", fmt.Sprintf(stat, bytes))
	}
	m := NewMetrics(h.Root, h.tree, h.finder)
	m.rules = func() rule.Config { return *h.inForce.Load() }
	served := func(of string) string {
		return sampleOf(scrape(t, m), "isolio_bytes_total{"+of+`,device="sda",direction="read"}`)
	}
	for of, want := range map[string]string{
		`cgroup="/docker/` + idA + `",container="web"`: "1000", `cgroup="others",container=""`: "280", `cgroup="/idle",container=""`: "4",
		`cgroup="/docker/` + idB + `",container="batch"`: "", `cgroup="/system.slice/backup.service",container=""`: "",
	} {
		if got := served(of); got != want {
			t.Errorf("%s: %q bytes, want %q", of, got, want)
		}
	}
	text := scrape(t, m)
	if strings.Contains(text, `isolio_weight{cgroup="others"`) {
		t.Error("the others have one weight")
	}
	if got := sampleOf(text, `isolio_entitled_share_ratio{cgroup="others",container="",device="sda"}`); got != "0.75" {
		t.Errorf("the others are entitled to %s", got)
	}
	if h.once(); h.weights("system.slice/backup.service", "docker/"+idB) != "300 100" {
		t.Errorf("weights %s", h.weights("system.slice/backup.service", "docker/"+idB))
	}
	h.put("etc/isolio.toml", "")
	must.OK(t, h.Reload())
	m = NewMetrics(h.Root, h.tree, h.finder)
	m.rules = func() rule.Config { return *h.inForce.Load() }
	if got := served(`cgroup="/docker/` + idB + `",container="batch"`); got != "250" {
		t.Errorf("without rules batch has %q bytes, want 250", got)
	}
}

// Two servers that scrape see the same counters, and a third cannot have the
// kernel read more often.
func TestScrapersDoNotSpoilEachOther(t *testing.T) {
	h := newHost(t, "")
	file := "sys/fs/cgroup/docker/" + idA + "/io.kyber.stat"
	h.put(file, "8:0 rbytes=1000 wbytes=0 rios=1 wios=0 throttled_usec=0 weight=200 share_ppm=0\n")
	m := NewMetrics(h.Root, h.tree, h.finder)
	first := scrape(t, m)
	h.put(file, "8:0 rbytes=5000 wbytes=0 rios=2 wios=0 throttled_usec=0 weight=200 share_ppm=0\n")
	line := func(text string) (served string) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "isolio_served_total{") || strings.HasPrefix(line, "isolio_bytes_total{") {
				served += line[strings.LastIndex(line, " "):]
			}
		}
		return strings.Join(strings.Fields(served), " ")
	}
	if again := scrape(t, m); line(again) != line(first) || line(first) != "1000 0" {
		t.Errorf("at once: %q, then %q", line(first), line(again))
	}
	m.at = m.at.Add(-leastInterval)
	a, b := scrape(t, m), scrape(t, m)
	if line(a) != line(b) || line(a) != "5000 4000" {
		t.Errorf("%q and %q, want both 5000 4000", line(a), line(b))
	}
	// A unit that was started again counts from 0, and has not read 2^64 bytes.
	h.put(file, "8:0 rbytes=100 wbytes=0 rios=20 wios=0 throttled_usec=0 weight=200 share_ppm=0\n")
	m.at = m.at.Add(-leastInterval)
	if got := line(scrape(t, m)); got != "5100 4100" {
		t.Errorf("after a restart %q, want 5100 4100", got)
	}
}

// silent is a client that reads nothing.
type silent struct {
	*httptest.ResponseRecorder
	writes chan<- struct{}
	ended  <-chan struct{}
}

func (s silent) Write(text []byte) (int, error) {
	s.writes <- struct{}{}
	<-s.ended
	return len(text), nil
}

// Clients that do not read their answers keep no other one from its own.
func TestClientsThatDoNotRead(t *testing.T) {
	h := newHost(t, "")
	handler := NewMetrics(h.Root, h.tree, h.finder).Handler()
	request := func() *http.Request { return httptest.NewRequest("GET", "/metrics", nil) }
	const many = 100
	writes, ended, done := make(chan struct{}, many), make(chan struct{}), make(chan struct{}, many)
	for range many {
		go func() {
			handler.ServeHTTP(silent{httptest.NewRecorder(), writes, ended}, request())
			done <- struct{}{}
		}()
	}
	for range many {
		<-writes
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request())
	if recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), "\nisolio_reconciles_total ") {
		t.Errorf("status %d:\n%s", recorder.Code, recorder.Body)
	}
	close(ended)
	for range many {
		<-done
	}
}

// A server of metrics that ended is started again.
func TestMetricsComeBack(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address := l.Addr().String()
	l.Close()
	h := newHost(t, "metrics = \""+address+"\"\n")
	h.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	defer h.stopServing()
	h.serve(context.Background())
	if h.server == nil {
		t.Skipf("another program took %s", address)
	}
	first := h.server
	first.server.Close()
	<-first.ended
	h.serve(context.Background())
	if h.server == nil || h.server == first {
		t.Fatalf("the server is %v", h.server)
	}
	response, err := http.Get("http://" + address + "/metrics")
	must.OK(t, err)
	response.Body.Close()
	if first.server.WriteTimeout == 0 || first.server.IdleTimeout == 0 || first.server.ReadTimeout == 0 {
		t.Error("a client that does nothing keeps its connection")
	}
}

// The tree's own root is the one directory that must be there.
func TestNoTree(t *testing.T) {
	h := newHost(t, "")
	h.tree = cgroup.Tree{Root: filepath.Join(h.Root, "absent")}
	if _, err := h.Once(context.Background()); err == nil {
		t.Error("no error without a tree")
	}
}

// Marks of cgroups that are gone are removed, also those of a daemon before.
func TestMarksGoWithTheirCgroups(t *testing.T) {
	h := newHost(t, "")
	marks := func() int {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(h.Root, "run/isolio/marks/*.json"))
		must.OK(t, err)
		return len(all)
	}
	h.put("run/isolio/marks/1.json", `{"cgroup":"of/a/daemon/before"}`)
	if h.once(); marks() != 3 {
		t.Errorf("%d marks, want those of two containers and a unit", marks())
	}
	must.OK(t, os.RemoveAll(h.tree.Path(everybody[0])))
	if h.once(); marks() != 2 {
		t.Errorf("%d marks after a container went, want 2", marks())
	}
}

// Cgroups that come and go, also under the same names, leave no marks, and a tenant's no more than so
// many lines of the log.
func TestChurn(t *testing.T) {
	const each = 150
	h := newHost(t, "[[rule]]\nunit = \"churn*\"\nweight = 20\n")
	log := h.logged()
	var groups []string
	for i := range each {
		groups = append(groups, fmt.Sprintf("system.slice/churn%d.service", i), fmt.Sprintf("user.slice/user-1000.slice/user@1000.service/churn%d.service", i))
	}
	stop := h.start()
	var held []*os.File // so that no number is given twice, as a cgroup's is not
	t.Cleanup(func() {
		for _, f := range held {
			f.Close()
		}
	})
	most := 0
	for range 4 {
		for _, group := range groups {
			h.put("new/io.kyber.weight", "default 100\n") // a cgroup's files are there from its beginning
			must.OK(t, os.MkdirAll(filepath.Dir(h.tree.Path(group)), 0o755))
			must.OK(t, os.Rename(filepath.Join(h.Root, "new"), h.tree.Path(group)))
			f, err := os.Open(h.tree.Path(group))
			must.OK(t, err)
			held = append(held, f)
		}
		for _, group := range groups {
			h.becomes(group, "20")
		}
		// A look removes them after it has written weights.
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			marks, err := os.ReadDir(filepath.Join(h.Root, "run/isolio/marks"))
			must.OK(t, err)
			most = max(most, len(marks))
			if len(marks) <= 2*each+len(everybody) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d marks of %d cgroups", len(marks), 2*each)
			}
		}
		for _, group := range groups {
			must.OK(t, os.RemoveAll(h.tree.Path(group)))
		}
	}
	stop()
	lines := map[bool]int{}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "/churn") && strings.Contains(line, "msg=weight") {
			lines[strings.Contains(line, "user@1000")]++
		}
	}
	t.Logf("%d cgroups at a time, 4 times: at most %d marks; %d lines of the owner's, %d of a tenant's", 2*each, most, lines[false], lines[true])
	if most > 2*(2*each+len(everybody)) {
		t.Errorf("%d marks of %d cgroups", most, 2*each)
	}
	if lines[true] > 2*mostLines || lines[false] != 4*each {
		t.Errorf("%d lines of a tenant, %d of the owner", lines[true], lines[false])
	}
	h.lines.since = time.Now().Add(-linesOften)
	h.once()
	if text := log.String(); !strings.Contains(text, "more lines about cgroups inside are left out") {
		t.Errorf("nothing tells of lines that were left out:\n%s", text[max(0, len(text)-500):])
	}
}

// keptMost is what a thousand containers may take: of so much, the collector makes less
// than twice as much, and the program's text is 13 MB.
const keptMost = 8 << 20

// A thousand containers with labels that no rule names, and their metrics, fit in
// the memory that the unit gives, several times over.
func TestAThousandContainers(t *testing.T) {
	h := newHost(t, "")
	label := strings.Repeat("x", 10<<10)
	for i := range 1000 {
		group := h.container(i)
		id := filepath.Base(group)
		h.put("var/lib/docker/containers/"+id+"/config.v2.json", `{"ID":"`+id+`","Name":"/c`+id[:4]+`","Config":{"Labels":{"note":"`+label+`"}}}`)
	}
	h.once()
	m := NewMetrics(h.Root, h.tree, h.finder)
	if text := scrape(t, m); strings.Count(text, "\nisolio_weight{") != 1000 {
		t.Errorf("metrics of %d containers", strings.Count(text, "\nisolio_weight{"))
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	if memory.HeapAlloc > keptMost {
		t.Errorf("%d KB are kept, more than %d", memory.HeapAlloc>>10, keptMost>>10)
	}
	t.Logf("%d KB are kept", memory.HeapAlloc>>10)
	runtime.KeepAlive(m)
	runtime.KeepAlive(h)
}
