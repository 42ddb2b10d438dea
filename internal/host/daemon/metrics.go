// SPDX-License-Identifier: MIT

package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"isolio/internal/cli"
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/policy"
	"isolio/internal/host/rule"
	"isolio/internal/host/target"
	"isolio/internal/host/usage"
	"isolio/internal/host/web"
)

// Metrics serves what containers have of disks to Prometheus. Counters are the
// kernel's, added up by container, so that they never go back while it runs. Any
// number of scrapers see the same.
//
// There are a thousand containers with dozens of samples each, so these are kept as
// numbers and become text on the way to a client. What the daemon tells of itself is
// little, and is client_golang's.
type Metrics struct {
	tree   cgroup.Tree
	health func() healthNow
	// more are collected beside.
	more []prometheus.Collector

	mu      sync.Mutex
	sampler *usage.Sampler
	at      time.Time // of the last sample
	series  []series  // of the last sample; never changed
	skipped int
	totals  map[source]*total
	last    map[source]*timesOf
	// rules are those in force, and containers those of the last sample.
	rules      func() rule.Config
	containers []target.Container
	// apart are the cgroups inside of each tenant's that have metrics of their own.
	apart map[string]map[string]bool
}

// mostApart is how many cgroups inside of a tenant's have metrics of their own. What the
// others do counts as the tenant's: each costs memory here and in Prometheus, and a tenant
// makes as many as it likes.
const mostApart = 100

// others are all of which rules say that they have no metrics of their own. It is the
// label of no cgroup, whose path begins with a slash.
const others = "others"

// total is what a container did on a disk since the metrics began. A cgroup inside
// of it that goes takes its counters along: what it did was done all the same.
type total struct {
	counters usage.Counters
	cost     float64
	latency  timesOf

	// Of the last sample in which it was.
	name, disk string
	weight     int
	entitled   float64
}

// source is a cgroup and a disk.
type source struct{ cgroup, majMin string }

// NewMetrics are those of the machine below root and its cgroups, with the containers
// that are found there.
func NewMetrics(root string, tree cgroup.Tree, finder *target.Finder) *Metrics {
	m := &Metrics{
		tree:    tree,
		health:  func() healthNow { return healthNow{} },
		rules:   func() rule.Config { return rule.Config{} },
		sampler: &usage.Sampler{System: block.System{Root: root}, Most: mostInside},
		totals:  map[source]*total{}, last: map[source]*timesOf{}, apart: map[string]map[string]bool{},
	}
	m.sampler.Containers = func(groups []string) (all []target.Container, err error) {
		m.containers, err = finder.List(groups)
		return m.containers, err
	}
	return m
}

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.more...)
	registry.MustRegister(m, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &answers{metrics: m, turn: make(chan struct{}, 1), own: promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})}
}

// answers has one answer for all clients. What the daemon tells of itself is made once
// for a while. Nothing is held while a client gets the answer: clients that do not read
// keep no other one waiting.
type answers struct {
	metrics *Metrics
	own     http.Handler
	// turn is full while a request reads what follows. A request whose client has gone does not
	// wait for it: clients that come and go would otherwise leave as many behind as they like.
	turn chan struct{}
	at   time.Time
	last *answer
}

// answerFor is how long what the daemon tells of itself is told again.
const answerFor = time.Second

// answer is one, in memory.
type answer struct {
	bytes.Buffer
	header http.Header
	code   int
}

func (a *answer) Header() http.Header  { return a.header }
func (a *answer) WriteHeader(code int) { a.code = code }

func (all *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case all.turn <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	series, one := all.metrics.now(), all.now(r)
	<-all.turn
	maps.Copy(w.Header(), one.header)
	w.WriteHeader(one.code)
	_, err := w.Write(one.Bytes())
	if err == nil && one.code == http.StatusOK {
		err = writeSeries(w, series)
	}
	_ = err // the client has gone
}

// now is what the daemon tells of itself, to all requests of this time. It is plain text
// whatever a client would accept.
func (all *answers) now(r *http.Request) *answer {
	if all.last == nil || time.Since(all.at) >= answerFor {
		one := &answer{header: http.Header{}, code: http.StatusOK}
		plain := &http.Request{Method: http.MethodGet, URL: r.URL, Header: http.Header{}}
		all.own.ServeHTTP(one, plain.WithContext(context.WithoutCancel(r.Context())))
		all.last, all.at = one, time.Now()
	}
	return all.last
}

var (
	describe = func(name, help string, of []string) *prometheus.Desc {
		return prometheus.NewDesc(metricPrefix+name, help, of, nil)
	}
	buildInfo   = describe("build_info", "1, with the version of isolio and of Go.", []string{"version", "goversion"})
	sharedDisks = describe("shared_disks", "Disks at the last pass on which io.kyber.weight acts.", nil)
	cgroups     = describe("cgroups", "Cgroups at the last pass.", nil)
	containers  = describe("containers", "Containers at the last pass.", nil)
	problems    = describe("problems", "What the log calls wrong now: cgroups, rules and files of engines.", nil)
	refused     = describe("refused_annotations", "Pods and containers whose annotation is not a weight, or is more than they may have.", nil)
	hearing     = describe("nri_connected", "1 if a container runtime tells of pods over NRI, else 0.", nil)
	overShares  = describe("overgiven_shares", "Shares of disks that claims and rules give, and that the disks do not have: each pod has less in proportion.", nil)
	reconciles  = describe("reconciles_total", "How often the daemon compared weights with what is asked for.", nil)
	lastPass    = describe("last_pass_timestamp_seconds", "When the daemon last compared weights with what is asked for.", nil)
	writes      = describe("weight_writes_total", "Weights that were written.", nil)
	writeErrors = describe("weight_write_errors_total", "Weights that could not be written.", nil)
	reloadOK    = describe("config_last_reload_successful", "1 if the last reading of the rules succeeded, else 0.", nil)
	reloadAt    = describe("config_last_reload_success_timestamp_seconds", "When the rules in force were read.", nil)
	unread      = describe("metrics_skipped", "Cgroups and disks whose metrics could not be read.", nil)
)

// Describe tells what the daemon tells of itself.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildInfo, sharedDisks, cgroups, containers, problems, refused, hearing, overShares, reconciles, lastPass, writes, writeErrors, reloadOK, reloadAt, unread,
	} {
		to <- d
	}
}

// leastInterval is the shortest time between two readings of the kernel. A scrape
// that comes sooner gets the last one again: a client that may connect must not be able
// to have root read files without end.
const leastInterval = 5 * time.Second

// now are the metrics of containers, of a sample that is not older than that.
func (m *Metrics) now() []series {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) >= leastInterval {
		m.read()
	}
	return m.series
}

// Collect tells what the daemon tells of itself.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	skipped := m.skipped
	m.mu.Unlock()
	h := m.health()
	for _, one := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{sharedDisks, prometheus.GaugeValue, float64(h.disks)},
		{cgroups, prometheus.GaugeValue, float64(h.groups)},
		{containers, prometheus.GaugeValue, float64(h.containers)},
		{problems, prometheus.GaugeValue, float64(h.problems)},
		{refused, prometheus.GaugeValue, float64(h.refused)},
		{overShares, prometheus.GaugeValue, float64(h.over)},
		{hearing, prometheus.GaugeValue, map[bool]float64{true: 1}[h.hearing]},
		{reconciles, prometheus.CounterValue, float64(h.reconciles)},
		{lastPass, prometheus.GaugeValue, seconds(h.lastPass)},
		{writes, prometheus.CounterValue, float64(h.writes)},
		{writeErrors, prometheus.CounterValue, float64(h.writeErrors)},
		{reloadOK, prometheus.GaugeValue, map[bool]float64{true: 1}[h.reloadOK]},
		{reloadAt, prometheus.GaugeValue, seconds(h.lastReload)},
		{unread, prometheus.GaugeValue, float64(skipped)},
	} {
		to <- prometheus.MustNewConstMetric(one.desc, one.kind, one.value)
	}
	to <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, cli.Version, runtime.Version())
}

func seconds(at time.Time) float64 {
	if at.IsZero() {
		return 0
	}
	return float64(at.UnixNano()) / 1e9
}

// read takes a sample, and makes metrics of it. Where nothing can be read there are none,
// and counters go on from where they were when something can.
func (m *Metrics) read() {
	m.series = nil
	sample, err := m.sampler.Sample()
	m.at = time.Now() // a reading that failed is one as well
	if err != nil {
		m.skipped = 1
		return
	}
	m.skipped = len(sample.Skipped)
	machine := policy.New(m.rules(), nil, m.containers)
	apart := map[string]map[string]bool{}
	seen := make(map[source]bool, len(m.last))
	shown := make(map[source]bool, len(m.totals))
	var order []source
	for i := range sample.Rows {
		r := &sample.Rows[i]
		to := source{m.placed(machine, r, apart), r.MajMin}
		sum := m.totals[to]
		if sum == nil {
			sum = &total{}
			m.totals[to] = sum
		}
		if !shown[to] {
			shown[to] = true
			order = append(order, to)
			sum.name, sum.disk, sum.weight, sum.entitled = "", r.Disk, 0, 0
		}
		if r.Cgroup == to.cgroup {
			sum.name, sum.weight = r.Name, r.Weight
		}
		m.add(sum, r)
		seen[source{r.Cgroup, r.MajMin}] = true
	}
	m.apart = apart // without those that are gone
	maps.DeleteFunc(m.last, func(of source, _ *timesOf) bool { return !seen[of] })
	maps.DeleteFunc(m.totals, func(of source, _ *total) bool { return !shown[of] })
	m.show(order)
}

// placed is the cgroup among whose metrics those of a row are.
func (m *Metrics) placed(machine *policy.Policy, r *usage.Row, apart map[string]map[string]bool) string {
	group := strings.TrimPrefix(cmp.Or(r.Within, r.Cgroup), "/")
	if tenant := target.TenantOf(group); tenant != "" && tenant != group {
		if r.Counters.IOs() > 0 && m.isApart(tenant, group) {
			if apart[tenant] == nil {
				apart[tenant] = map[string]bool{}
			}
			apart[tenant][group] = true
		} else {
			group = tenant
		}
	}
	switch {
	case !machine.HasMetrics(group):
		return others
	case r.Cgroup[1:] == group:
		return r.Cgroup
	case strings.TrimPrefix(r.Within, "/") == group:
		return r.Within
	}
	return "/" + group
}

// isApart reports whether a cgroup inside of a tenant's has metrics of its own. One that
// had them keeps them.
func (m *Metrics) isApart(tenant, group string) bool {
	own := m.apart[tenant]
	if own == nil {
		own = map[string]bool{}
		m.apart[tenant] = own
	}
	if !own[group] && len(own) < mostApart {
		own[group] = true
	}
	return own[group]
}

// add adds what a cgroup did to the one among whose metrics it is.
func (m *Metrics) add(sum *total, r *usage.Row) {
	sum.entitled += r.Entitled
	sum.counters.Add(r.Did)
	sum.cost += r.Cost
	if r.Counters.IOs() == 0 {
		return
	}
	all, err := usage.ReadLatency(m.tree.Path(r.Cgroup))
	if err != nil {
		m.skipped++ // what comes until the next reading is not lost
		return
	}
	for i := range all {
		if h := &all[i]; h.MajMin == r.MajMin {
			of := source{r.Cgroup, r.MajMin}
			last := m.last[of]
			if last == nil {
				last = &timesOf{}
				m.last[of] = last
			}
			now := timesOf{timesIn(h.Read), timesIn(h.Write)}
			sum.latency.read.add(now.read.since(&last.read))
			sum.latency.write.add(now.write.since(&last.write))
			*last = now
		}
	}
}

// show makes metrics of those that did something.
func (m *Metrics) show(order []source) {
	m.series = make([]series, 0, len(order))
	shown := make(map[string]bool, len(order))
	for _, of := range order {
		sum := m.totals[of]
		if sum.counters.IOs() == 0 {
			continue
		}
		// Two names may look the same once they are valid: the second has no metrics.
		one := seriesOf(of.cgroup, sum)
		if shown[one.labels] {
			m.skipped++
			continue
		}
		shown[one.labels] = true
		m.series = append(m.series, one)
	}
}

// metricsServer answers scrapes on an address.
type metricsServer struct {
	address string
	server  *http.Server
	ended   chan struct{} // closed when it serves no more
}

// hung is how long ago the daemon's loop may have turned where it is not to be started again. It
// looks for other disks every five seconds.
const hung = 2 * time.Minute

// dead is why the daemon is to be started again, "" where it is not. It reads no file, and waits for
// no look at cgroups.
func (d *Daemon) dead(context.Context) string {
	if age := time.Since(d.health.now().turned); age > hung {
		return fmt.Sprintf("the last look for other disks was %s ago", age.Round(time.Second))
	}
	return ""
}

// serve serves metrics where the rules say, and no more where they said before.
// An address that cannot be had, such as one that is taken, must not keep
// containers from their weights: it is logged, and tried again.
func (d *Daemon) serve(ctx context.Context) {
	address := d.config.Metrics
	if d.server != nil {
		select {
		case <-d.server.ended:
		default:
			if d.server.address == address {
				return
			}
		}
		d.stopServing()
	}
	if address == "" {
		d.clear(noMetrics, "server")
		return
	}
	listener, err := web.Listen(ctx, address)
	if err != nil {
		d.settle(noMetrics, map[string]string{"server": err.Error() + "; it is tried again every " + d.Every.String()})
		return
	}
	d.settle(noMetrics, nil)
	d.health.turns()
	metrics := NewMetrics(d.Root, d.tree, d.finder)
	metrics.health = d.health.now
	metrics.rules = func() rule.Config { return *d.inForce.Load() }
	if d.ledger != nil {
		metrics.more = append(metrics.more, d.ledger)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler())
	mux.HandleFunc("GET /livez", web.Probe(d.dead))
	one := &metricsServer{address: address, ended: make(chan struct{}), server: web.Server(mux)}
	d.server = one
	go func() {
		defer close(one.ended)
		if err := one.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.Log.ErrorContext(ctx, "metrics", "error", err.Error())
		}
	}()
}

func (d *Daemon) stopServing() {
	if d.server != nil {
		d.server.server.Close()
	}
	d.server = nil
}
