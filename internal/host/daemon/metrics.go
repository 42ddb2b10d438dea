// SPDX-License-Identifier: MIT

package daemon

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"isolio/internal/cli"
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/container"
	"isolio/internal/host/meter"
	"isolio/internal/host/rule"
	"isolio/internal/host/ruling"
	"isolio/internal/host/usage"
	"isolio/internal/printable"
)

// Metrics serves what containers have of disks to Prometheus. Counters are the
// kernel's, added up by container, so that they never go back while it runs. Any
// number of scrapers see the same.
type Metrics struct {
	tree   cgroup.Tree
	health func() healthNow
	// more are collected beside.
	more []prometheus.Collector

	mu      sync.Mutex
	sampler *usage.Sampler
	at      time.Time // of the last sample
	samples []prometheus.Metric
	skipped int
	totals  map[source]*total
	last    map[source]meter.Histograms
	// rules are those in force, and containers those of the last sample.
	rules      func() rule.Config
	containers []container.Container
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
	counters meter.Counters
	cost     float64
	latency  meter.Histograms
	seen     time.Time
}

// source is a cgroup and a disk.
type source struct{ cgroup, majMin string }

// NewMetrics are those of the machine below root and its cgroups, with the containers
// that are found there.
func NewMetrics(root string, tree cgroup.Tree, finder *container.Finder) *Metrics {
	m := &Metrics{
		tree:    tree,
		health:  func() healthNow { return healthNow{} },
		rules:   func() rule.Config { return rule.Config{} },
		sampler: &usage.Sampler{System: block.System{Root: root}, Most: mostInside},
		totals:  map[source]*total{}, last: map[source]meter.Histograms{}, apart: map[string]map[string]bool{},
	}
	m.sampler.Containers = func(groups []string) (all []container.Container, err error) {
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
	return &answers{of: promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})}
}

// answers has one answer for all clients. It is made once for a while, and nothing is held
// while a client gets it: clients that do not read keep no other one waiting.
type answers struct {
	of http.Handler

	mu   sync.Mutex
	at   time.Time
	last *answer
}

// answerFor is how long an answer is given again.
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
	one := all.now(r)
	maps.Copy(w.Header(), one.header)
	w.WriteHeader(one.code)
	_, _ = w.Write(one.Bytes()) // the client may have gone
}

// now is the answer to all requests of this time. It is plain text whatever a client
// would accept.
func (all *answers) now(r *http.Request) *answer {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.last == nil || time.Since(all.at) >= answerFor {
		one := &answer{header: http.Header{}, code: http.StatusOK}
		plain := &http.Request{Method: http.MethodGet, URL: r.URL, Header: http.Header{}}
		all.of.ServeHTTP(one, plain.WithContext(context.WithoutCancel(r.Context())))
		all.last, all.at = one, time.Now()
	}
	return all.last
}

var (
	labels   = []string{"cgroup", "container", "device"}
	byDir    = append(slices.Clip(labels), "direction")
	describe = func(name, help string, of []string) *prometheus.Desc {
		return prometheus.NewDesc("isolio_"+name, help, of, nil)
	}
	weightIs  = describe("weight", "Weight in effect on the disk.", labels)
	entitled  = describe("entitled_share_ratio", "Share of the disk that it is entitled to among those active now, 0 if it is not active.", labels)
	served    = describe("served_total", "What the disk served, in the unit that it is shared by: bytes, requests, or seconds of the disk.", labels)
	bytesMade = describe("bytes_total", "Bytes of requests that went to the disk.", byDir)
	requests  = describe("requests_total", "Requests that went to the disk.", byDir)
	throttled = describe("throttled_seconds_total", "How long the cgroup was throttled: it had requests queued and was a lead ahead. The sum over hardware queues.", labels)
	latency   = describe("request_duration_seconds", "Time of requests in the scheduler and the disk. The sum is made of the buckets, to within an eighth.", byDir)

	buildInfo   = describe("build_info", "1, with the version of isolio and of Go.", []string{"version", "goversion"})
	sharedDisks = describe("shared_disks", "Disks at the last pass on which io.kyber.weight acts.", nil)
	cgroups     = describe("cgroups", "Cgroups at the last pass.", nil)
	containers  = describe("containers", "Containers at the last pass.", nil)
	problems    = describe("problems", "What the log calls wrong now: cgroups, rules and files of engines.", nil)
	refused     = describe("refused_annotations", "Pods and containers whose annotation is not a weight, or is more than they may have.", nil)
	hearing     = describe("nri_connected", "1 if a container runtime tells of pods over NRI, else 0.", nil)
	passes      = describe("passes_total", "How often the daemon compared weights with what is asked for.", nil)
	lastPass    = describe("last_pass_timestamp_seconds", "When the daemon last compared weights with what is asked for.", nil)
	writes      = describe("weight_writes_total", "Weights that were written.", nil)
	writeErrors = describe("weight_write_errors_total", "Weights that could not be written.", nil)
	reloadOK    = describe("config_last_reload_successful", "1 if the last reading of the rules succeeded, else 0.", nil)
	reloadAt    = describe("config_last_reload_success_timestamp_seconds", "When the rules in force were read.", nil)
	unread      = describe("metrics_skipped", "Cgroups and disks whose metrics could not be read.", nil)
)

// Describe tells all metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		weightIs, entitled, served, bytesMade, requests, throttled, latency,
		buildInfo, sharedDisks, cgroups, containers, problems, refused, hearing, passes, lastPass, writes, writeErrors, reloadOK, reloadAt, unread,
	} {
		to <- d
	}
}

// leastInterval is the shortest time between two readings of the kernel. A scrape
// that comes sooner gets the last one again: a client that may connect must not be able
// to have root read files without end.
const leastInterval = 5 * time.Second

// Collect reads all metrics.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.at) >= leastInterval {
		if err := m.read(); err != nil {
			to <- prometheus.NewInvalidMetric(weightIs, err)
		}
	}
	for _, metric := range m.samples {
		to <- metric
	}
	m.self(to)
}

// self is what the daemon tells of itself.
func (m *Metrics) self(to chan<- prometheus.Metric) {
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
		{hearing, prometheus.GaugeValue, map[bool]float64{true: 1}[h.hearing]},
		{passes, prometheus.CounterValue, float64(h.passes)},
		{lastPass, prometheus.GaugeValue, seconds(h.lastPass)},
		{writes, prometheus.CounterValue, float64(h.writes)},
		{writeErrors, prometheus.CounterValue, float64(h.writeErrors)},
		{reloadOK, prometheus.GaugeValue, map[bool]float64{true: 1}[h.reloadOK]},
		{reloadAt, prometheus.GaugeValue, seconds(h.lastReload)},
		{unread, prometheus.GaugeValue, float64(m.skipped)},
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

// read takes a sample, and makes metrics of it.
func (m *Metrics) read() error {
	sample, err := m.sampler.Sample()
	m.at = time.Now() // a reading that failed is one as well
	if err != nil {
		return err
	}
	m.skipped = len(sample.Skipped)
	all := m.placed(sample.Rows)
	last := map[source]meter.Histograms{}
	for i := range all {
		m.add(&all[i], sample.At, last)
	}
	m.last = last
	m.samples = nil
	shown := map[source]bool{}
	rows := usage.Fold(all)
	for i := range rows {
		r := &rows[i]
		sum := m.totals[source{r.Cgroup, r.MajMin}]
		if sum == nil || sum.counters.IOs() == 0 {
			continue
		}
		// Two names may look the same once they are valid: the second has no metrics.
		name := source{printable.Text(r.Cgroup), r.MajMin}
		if shown[name] {
			m.skipped++
			continue
		}
		shown[name] = true
		m.collect(r, sum)
	}
	for key, sum := range m.totals {
		if !sum.seen.Equal(sample.At) {
			delete(m.totals, key)
		}
	}
	return nil
}

// placed are the rows with the cgroup among whose metrics theirs are as Within. A row for
// that comes before them.
func (m *Metrics) placed(rows []usage.Row) []usage.Row {
	machine := ruling.New(m.rules(), nil, m.containers)
	apart := map[string]map[string]bool{}
	all := make([]usage.Row, 0, len(rows))
	there := map[source]bool{}
	for _, r := range rows {
		group := strings.TrimPrefix(cmp.Or(r.Within, r.Cgroup), "/")
		if tenant := container.Tenant(group); tenant != "" && tenant != group {
			if r.Counters.IOs() > 0 && m.isApart(tenant, group) {
				if apart[tenant] == nil {
					apart[tenant] = map[string]bool{}
				}
				apart[tenant][group] = true
			} else {
				group = tenant
			}
		}
		r.Within = "/" + group
		if !machine.HasMetrics(group) {
			r.Within = others
		}
		if of := (source{r.Within, r.MajMin}); !there[of] {
			there[of] = true
			if r.Within != r.Cgroup {
				all = append(all, usage.Row{Cgroup: r.Within, Within: r.Within, Disk: r.Disk, MajMin: r.MajMin})
			}
		}
		all = append(all, r)
	}
	m.apart = apart // without those that are gone
	return all
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
func (m *Metrics) add(r *usage.Row, at time.Time, last map[source]meter.Histograms) {
	key := source{r.Cgroup, r.MajMin}
	to := source{r.Within, r.MajMin}
	sum := m.totals[to]
	if sum == nil {
		sum = &total{}
		m.totals[to] = sum
	}
	sum.seen = at
	sum.counters.Add(r.Did)
	sum.cost += r.Cost
	if r.Counters.IOs() == 0 {
		return
	}
	all, err := meter.ReadLatency(m.tree.Path(r.Cgroup))
	if err != nil {
		m.skipped++
		last[key] = m.last[key] // what comes until the next reading is not lost
		return
	}
	for _, h := range all {
		if h.MajMin == r.MajMin {
			before := m.last[key]
			sum.latency.Read = sum.latency.Read.Plus(h.Read.Since(before.Read))
			sum.latency.Write = sum.latency.Write.Plus(h.Write.Since(before.Write))
			last[key] = h
		}
	}
}

// collect makes the metrics of a container and a disk.
func (m *Metrics) collect(r *usage.Row, sum *total) {
	of := []string{printable.Text(r.Cgroup), printable.Text(r.Name), r.Disk}
	add := func(metric prometheus.Metric, err error) {
		if err != nil {
			m.skipped++
			return
		}
		m.samples = append(m.samples, metric)
	}
	number := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, of ...string) {
		add(prometheus.NewConstMetric(d, kind, v, of...))
	}
	if r.Cgroup != others {
		number(weightIs, prometheus.GaugeValue, float64(r.Weight), of...)
	}
	number(entitled, prometheus.GaugeValue, r.Entitled, of...)
	c := sum.counters
	number(served, prometheus.CounterValue, sum.cost, of...)
	number(throttled, prometheus.CounterValue, float64(c.ThrottledUS)/1e6, of...)
	for _, dir := range []struct {
		name       string
		bytes, ios uint64
		histogram  meter.Histogram
	}{{"read", c.ReadBytes, c.ReadIOs, sum.latency.Read}, {"write", c.WriteBytes, c.WriteIOs, sum.latency.Write}} {
		if dir.ios == 0 {
			continue
		}
		of := append(slices.Clip(of), dir.name)
		number(bytesMade, prometheus.CounterValue, float64(dir.bytes), of...)
		number(requests, prometheus.CounterValue, float64(dir.ios), of...)
		count, sum, buckets := cumulated(dir.histogram)
		add(prometheus.NewConstHistogram(latency, count, sum, buckets, of...))
	}
}

// Bounds of the buckets that Prometheus gets: every eighth of the kernel's, from
// 16 us to 17 s, so that their counts are exact.
const (
	firstBound = 1 << 14 * time.Nanosecond
	boundStep  = 4
	nrBounds   = 11
)

// cumulated makes a histogram one of Prometheus': each bucket has all that took
// less. A kernel's bucket is narrow, and
// its requests are taken to be in its middle.
func cumulated(h meter.Histogram) (count uint64, sum float64, buckets map[float64]uint64) {
	buckets = map[float64]uint64{}
	bound := firstBound
	for range nrBounds {
		for _, b := range h {
			if b.Under != meter.NoBound && b.Under <= bound {
				buckets[bound.Seconds()] += b.Count
			}
		}
		buckets[bound.Seconds()] += 0 // there in any case
		bound *= boundStep
	}
	for _, b := range h {
		count += b.Count
		sum += float64(b.Count) * b.Middle().Seconds()
	}
	return count, sum, buckets
}

// metricsServer answers scrapes on an address.
type metricsServer struct {
	address string
	server  *http.Server
	ended   chan struct{} // closed when it serves no more
}

// Limits of a client that is slow, or does nothing: it must not keep others from
// their metrics.
const (
	headerTime = 5 * time.Second
	answerTime = 30 * time.Second
	idleTime   = 2 * time.Minute
)

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
	listener, err := net.Listen("tcp", address)
	if err != nil {
		d.settle(noMetrics, map[string]string{"server": err.Error() + "; it is tried again every " + d.Every.String()})
		return
	}
	d.settle(noMetrics, nil)
	metrics := NewMetrics(d.Root, d.tree, d.finder)
	metrics.health = d.health.now
	metrics.rules = func() rule.Config { return *d.inForce.Load() }
	if d.ledger != nil {
		metrics.more = append(metrics.more, d.ledger)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.Handler())
	one := &metricsServer{address: address, ended: make(chan struct{}), server: &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTime, ReadTimeout: headerTime, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: 16 << 10,
	}}
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
