// SPDX-License-Identifier: MIT

// Package prometheus_test tests the dashboard and the rules of packaging/ against the
// metrics of the daemon. `make test T=prometheus` has a real Prometheus scrape a real daemon,
// whose machine is a tree of files, and ask every question of the dashboard. Without that
// Prometheus only what takes none is tested.
package prometheus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"isolio/internal/host/daemon"
	"isolio/internal/host/profile"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

const packaging = "../../packaging/"

// dashboard is what is looked at of a dashboard.
type dashboard struct {
	UID    string  `json:"uid"`
	Panels []panel `json:"panels"`
	Vars   struct {
		List []struct {
			Name  string `json:"name"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ Expr, LegendFormat string }
}

// dashboards and rules are the files of each.
var (
	dashboards = []string{"grafana/isolio.json", "grafana/promises.json"}
	rules      = []string{"prometheus/isolio.yml", "prometheus/promises.yml"}
)

func readDashboard(t *testing.T, file string) (d dashboard, text string) {
	t.Helper()
	raw, err := os.ReadFile(packaging + file)
	must.OK(t, err)
	must.OK(t, json.Unmarshal(raw, &d))
	return d, string(raw)
}

// ofTheDaemon matches names of its metrics, with what a histogram adds.
var ofTheDaemon = regexp.MustCompile(`\b(isolio|process)_[a-z_]+`)

// The dashboard and the rules ask for metrics that the daemon has, and each metric of
// the daemon is in one of the two.
func TestMetricsAreThere(t *testing.T) {
	served := serve(t, nil)
	has := map[string]bool{}
	eventually(t, "metrics of promises", 20*time.Second, func() error {
		text := scrape(t, served)
		for _, name := range ofTheDaemon.FindAllString(text, -1) {
			has[name] = true
		}
		if !has["isolio_promise_objective_ratio"] {
			return errors.New("none")
		}
		return nil
	})
	all := ""
	for _, file := range dashboards {
		_, text := readDashboard(t, file)
		all += text
	}
	for _, file := range rules {
		text, err := os.ReadFile(packaging + file)
		must.OK(t, err)
		all += string(text)
	}
	// In Kubernetes there are those of isolio-node as well.
	ofNode, err := os.ReadFile("../../deploy/node/internal/driver/metrics.go")
	must.OK(t, err)
	asked := map[string]bool{}
	for _, name := range ofTheDaemon.FindAllString(all, -1) {
		asked[name] = true
		if !has[name] && !strings.Contains(string(ofNode), `"`+name+`"`) {
			t.Errorf("there is no metric %s", name)
		}
	}
	for name := range has {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if strings.HasPrefix(name, "isolio_") && !asked[base] && !asked[base+"_bucket"] && !asked[name] && !slices.Contains(notShown, name) {
			t.Errorf("%s is in neither", name)
		}
	}
	if len(asked) < 20 {
		t.Errorf("only %d metrics are asked for: %v", len(asked), asked)
	}
}

// notShown are metrics that say what another one does.
var notShown = []string{"isolio_reconciles_total", "isolio_config_last_reload_success_timestamp_seconds"}

// docs/monitoring.md has each alert, and each recorded series but those from which alerts of promises
// are computed, and none that there is not.
func TestRulesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/monitoring.md")
	must.OK(t, err)
	var are, named []string
	for file, kinds := range map[string]string{"isolio.yml": "alert|record", "promises.yml": "alert"} {
		rules, err := os.ReadFile(packaging + "prometheus/" + file)
		must.OK(t, err)
		for _, found := range regexp.MustCompile(`(?m)^ +- (?:`+kinds+`): (\S+)$`).FindAllStringSubmatch(string(rules), -1) {
			are = append(are, found[1])
		}
	}
	for _, found := range regexp.MustCompile("`(Isolio[A-Za-z]+|isolio:[a-z0-9_:]+)`").FindAllStringSubmatch(string(page), -1) {
		named = append(named, found[1])
	}
	slices.Sort(are)
	slices.Sort(named)
	are, named = slices.Compact(are), slices.Compact(named) // an alert may have several windows
	if !slices.Equal(are, named) {
		t.Errorf("there are %q, and the page has %q", are, named)
	}
}

// Panels do not overlap, and have a title, a place and a query that uses the variables.
func TestPanels(t *testing.T) {
	uids := map[string]bool{}
	for _, file := range dashboards {
		d, _ := readDashboard(t, file)
		if uids[d.UID] {
			t.Errorf("%s: %q is another's", file, d.UID)
		}
		uids[d.UID] = true
		t.Run(file, func(t *testing.T) { testPanels(t, d) })
	}
}

func testPanels(t *testing.T, d dashboard) {
	cells, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: its number is another's", p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if p.Title == "" || p.GridPos.W == 0 || p.GridPos.X+p.GridPos.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%+v", p)
		}
		for _, q := range p.Targets {
			if !strings.Contains(q.Expr, `job=~"$job",instance=~"$instance"`) {
				t.Errorf("%s is of all hosts: %s", p.Title, q.Expr)
			}
		}
	}
	if len(d.Panels) < 10 || d.UID == "" {
		t.Errorf("%d panels of %q", len(d.Panels), d.UID)
	}
}

// program is Prometheus or promtool as scripts/prometheus has got it.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("PROMETHEUS")
	if dir == "" {
		t.Skip("there is no Prometheus: make test T=prometheus gets it")
	}
	file := filepath.Join(dir, name)
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	return file
}

// The rules are what Prometheus takes, and recorded series raise the alerts that they are
// to raise.
func TestRules(t *testing.T) {
	promtool := program(t, "promtool")
	for _, file := range rules {
		testsOf := strings.TrimSuffix(file, ".yml") + "_test.yml"
		for _, args := range [][]string{
			{"check", "rules", "--lint=all", "--lint-fatal", packaging + file},
			{"test", "rules", packaging + testsOf},
		} {
			if said, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
				t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, said)
			}
		}
		// A test that tests no alert could not fail.
		text, err := os.ReadFile(packaging + file)
		must.OK(t, err)
		tests, err := os.ReadFile(packaging + testsOf)
		must.OK(t, err)
		for _, alert := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`(?m)^ +-? ?(?:eval_time: \w+\n +)?alertname: ` + alert[1] + `\n +exp_alerts:\n`).Match(tests) {
				t.Errorf("%s is never raised", alert[1])
			}
		}
	}
}

// A machine of two containers on a disk, as files, that the daemon takes for a host.
func machine(t *testing.T) (root string, put func(name, text string)) {
	t.Helper()
	root = t.TempDir()
	put = func(name, text string) {
		t.Helper()
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file+".new", []byte(text), 0o644), os.Rename(file+".new", file)); err != nil {
			t.Error(err)
		}
	}
	put("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n")
	put("sys/fs/cgroup/cgroup.subtree_control", "cpu io memory\n")
	put("sys/block/sda/dev", "8:0\n")
	put("sys/block/sda/size", "8388608\n")
	put("sys/block/sda/queue/scheduler", "none [kyber-fairness]\n")
	put("sys/block/sda/queue/iosched/share_by", "[bytes] iops time\n")
	for id, name := range containers {
		put("sys/fs/cgroup/docker/"+id+"/io.kyber.weight", "default 100\n")
		put("var/lib/docker/containers/"+id+"/config.v2.json", `{"ID":"`+id+`","Name":"/`+name+`"}`)
	}
	put("sys/block/sda/wwid", "eui.01\n")
	measured, err := (&profile.Profile{Schema: profile.Schema, Disk: profile.Disk{Identity: "wwid-eui.01", Name: "sda"}, Scheduler: "none", Loads: []profile.Load{{
		Name: "randread-4k", Kind: profile.Kind{Random: true, ReadPct: 100, BlockBytes: 4096}, KneeDepth: 16,
		Points: []profile.Point{
			{Depth: 1, IOPS: 10000, LowIOPS: 10000, Read: &profile.Latency{Mean: 100, P99: 110}},
			{Depth: 16, IOPS: 100000, LowIOPS: 100000, Read: &profile.Latency{Mean: 160, P99: 240}},
		},
	}}}).Encode()
	must.OK(t, err)
	put("var/lib/isolio/profiles/wwid-eui.01.json", measured)
	work(put, 1)
	return root, put
}

var containers = map[string]string{strings.Repeat("1", 64): "web", strings.Repeat("2", 64): "batch"}

// work has the containers do so much since they began: web twice as much as batch.
func work(put func(name, text string), n int) {
	for id, name := range containers {
		times := map[string]int{"web": 2 * n, "batch": n}[name]
		put("sys/fs/cgroup/docker/"+id+"/io.kyber.stat", fmt.Sprintf(
			"8:0 rbytes=%d wbytes=%d rios=%d wios=%d throttled_usec=%d weight=100 share_ppm=%d\n", times*1048576, times*4096, times*256, times, n*300000, times*333333/n))
		put("sys/fs/cgroup/docker/"+id+"/io.kyber.latency", fmt.Sprintf("8:0 r20480=%d r1048576=%d w2048=%d\n", times*250, times*6, times))
		put("sys/fs/cgroup/docker/"+id+"/io.stat", fmt.Sprintf("8:0 rbytes=%d wbytes=%d rios=%d wios=%d dbytes=0 dios=0\n", times*1048576, times*4096, times*256, times))
		put("sys/fs/cgroup/docker/"+id+"/io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	}
	put("sys/block/sda/stat", fmt.Sprintf("%d 0 %d 0 %d 0 %d 0 0 %d 0 0 0 0 0 0 0\n", 3*n*256, 3*n*2048, 3*n, 3*n*8, n*500))
	put("sys/block/sda/inflight", "0 0\n")
}

// serve runs a daemon on a machine of files, whose containers work if working is not nil,
// and returns its address.
func serve(t *testing.T, working func(put func(name, text string), n int)) string {
	t.Helper()
	root, put := machine(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address := l.Addr().String()
	l.Close()
	put("etc/isolio.toml", "nri = \"off\"\nmetrics = \""+address+"\"\n[[rule]]\nname = \"web\"\nweight = 200\n"+
		"[[promise]]\nname = \"web\"\ndevice = \"sda\"\nread = \"100 IOPS\"\nmode = \"hold\"\n")
	d := &daemon.Daemon{Root: root, RuleFile: filepath.Join(root, "etc/isolio.toml"), Every: time.Second, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	must.OK(t, d.Open())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- d.Run(ctx) }()
	go func() {
		for n := 2; ctx.Err() == nil && working != nil; n++ {
			working(put, n)
			time.Sleep(time.Second / 2)
		}
		ended <- nil
	}()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "metrics", 10*time.Second, func() error {
		response, err := http.Get("http://" + address + "/metrics")
		if err == nil {
			response.Body.Close()
		}
		return err
	})
	return address
}

func scrape(t *testing.T, address string) string {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	must.OK(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must.OK(t, err)
	return string(text)
}

func eventually(t *testing.T, what string, within time.Duration, try func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = try(); err == nil {
			return
		}
	}
	t.Fatalf("no %s after %s: %v", what, within, err)
}

// answer is what Prometheus' API says.
type answer struct {
	Status, Error string
	Data          struct {
		Result []series
		Groups []struct {
			Rules []struct{ Name, Health, LastError, State string }
		}
		ActiveTargets []struct{ Health, LastError string }
	}
}

type series struct {
	Metric map[string]string
	Value  [2]any
}

// prometheus has a real one scrape the daemon, and returns how it is asked.
func prometheus(t *testing.T, daemonAddress string) func(path string, query url.Values) (answer, error) {
	t.Helper()
	binary := program(t, "prometheus")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address := l.Addr().String()
	l.Close()
	var files []string
	for _, file := range rules {
		name, err := filepath.Abs(packaging + file)
		must.OK(t, err)
		files = append(files, strconv.Quote(name))
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\nscrape_configs:\n  - job_name: isolio\n    static_configs: [{targets: [%q]}]\n", strings.Join(files, ", "), daemonAddress)
	testtree.File(t, config, text)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	log, err := os.Create(filepath.Join(dir, "log"))
	must.OK(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	must.OK(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it ends by the signal
		log.Close()
		if said, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("prometheus says:\n%s", said)
		}
	})
	return func(path string, query url.Values) (a answer, err error) {
		response, err := http.Get("http://" + address + "/api/v1/" + path + "?" + query.Encode())
		if err != nil {
			return a, err
		}
		defer response.Body.Close()
		if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
			return a, err
		}
		if a.Status != "success" {
			return a, errors.New(a.Error)
		}
		return a, nil
	}
}

// variables are what Grafana puts in place of its variables. The daemon reads the kernel
// once in five seconds.
var variables = strings.NewReplacer("$job", ".*", "$instance", ".*", "$device", ".*", "$promise", ".*", "$__rate_interval", "15s", "$__range", "1m")

// label is a label in the text of a legend.
var label = regexp.MustCompile(`\{\{(\w+)\}\}`)

// Every question of the dashboard has an answer with the labels of its legend, every rule
// is evaluated, and a host on which all is well raises no alert.
func TestARealPrometheus(t *testing.T) {
	program(t, "prometheus")
	ask := prometheus(t, serve(t, work))
	eventually(t, "scrape", 30*time.Second, func() error {
		a, err := ask("targets", nil)
		if err == nil && (len(a.Data.ActiveTargets) != 1 || a.Data.ActiveTargets[0].Health != "up") {
			err = fmt.Errorf("%+v", a.Data.ActiveTargets)
		}
		return err
	})
	questions := 0
	var panels []panel
	for _, file := range dashboards {
		d, _ := readDashboard(t, file)
		panels = append(panels, d.Panels...)
	}
	for _, p := range panels {
		for _, target := range p.Targets {
			questions++
			query := variables.Replace(target.Expr)
			eventually(t, fmt.Sprintf("answer of %s (%s)", p.Title, query), 40*time.Second, func() error {
				a, err := ask("query", url.Values{"query": {query}})
				if err == nil && len(a.Data.Result) == 0 {
					err = errors.New("nothing")
				}
				if err != nil {
					return err
				}
				for _, name := range label.FindAllStringSubmatch(target.LegendFormat, -1) {
					if !slices.ContainsFunc(a.Data.Result, func(r series) bool { return r.Metric[name[1]] != "" }) {
						return fmt.Errorf("no label %s in %v", name[1], a.Data.Result)
					}
				}
				return nil
			})
		}
	}
	if questions < 20 {
		t.Errorf("%d questions", questions)
	}
	// web does twice what batch does.
	eventually(t, "shares", 20*time.Second, func() error {
		a, err := ask("query", url.Values{"query": {`round(isolio:share:ratio5m, 0.1)`}})
		if err != nil {
			return err
		}
		got := map[string]any{}
		for _, r := range a.Data.Result {
			got[r.Metric["container"]] = r.Value[1]
		}
		if got["web"] != "0.7" || got["batch"] != "0.3" {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	// The rules of promises are evaluated every 30 s.
	var evaluated answer
	nr := 0
	eventually(t, "evaluation of all rules", 60*time.Second, func() (err error) {
		if evaluated, err = ask("rules", nil); err != nil {
			return err
		}
		nr = 0
		for _, group := range evaluated.Data.Groups {
			for _, r := range group.Rules {
				nr++
				if r.Health != "ok" {
					return fmt.Errorf("%+v", r)
				}
			}
		}
		return nil
	})
	for _, group := range evaluated.Data.Groups {
		for _, r := range group.Rules {
			if r.State != "" && r.State != "inactive" {
				t.Errorf("%+v", r)
			}
		}
	}
	if nr < 25 {
		t.Errorf("%d rules: %+v", nr, evaluated)
	}
	for _, file := range dashboards {
		d, _ := readDashboard(t, file)
		testVariables(t, d, ask)
	}
}

// testVariables tests that each variable of a dashboard has values.
func testVariables(t *testing.T, d dashboard, ask func(path string, query url.Values) (answer, error)) {
	t.Helper()
	for _, variable := range d.Vars.List {
		query, ok := variable.Query.(map[string]any)
		if !ok {
			continue // the datasource's
		}
		text := variables.Replace(fmt.Sprint(query["query"]))
		found := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(text)
		if found == nil {
			t.Errorf("%s: %s", variable.Name, text)
			continue
		}
		if a, err := ask("query", url.Values{"query": {"count by (" + found[2] + ") (" + found[1] + ")"}}); err != nil || len(a.Data.Result) == 0 || a.Data.Result[0].Metric[found[2]] == "" {
			t.Errorf("%s: %+v, %v", variable.Name, a, err)
		}
	}
}
