// SPDX-License-Identifier: MIT

package daemon

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/container"
	"isolio/internal/host/meter"
	"isolio/internal/host/usage"
)

// Metrics serves what containers have of disks to Prometheus. Counters are read
// from the kernel when they are asked for; nothing is kept.
type Metrics struct {
	tree cgroup.Tree

	mu      sync.Mutex
	sampler *usage.Sampler
	latest  usage.Sample
}

// NewMetrics are those of the machine below root and its cgroups, with the containers
// that are found there.
func NewMetrics(root string, tree cgroup.Tree, finder *container.Finder) *Metrics {
	return &Metrics{
		tree: tree,
		sampler: &usage.Sampler{
			System:     block.System{Root: root},
			Containers: finder.List,
		},
	}
}

// Handler answers scrapes.
func (m *Metrics) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
}

var (
	labels   = []string{"cgroup", "container", "device"}
	byDir    = append(slices.Clip(labels), "direction")
	describe = func(name, help string, of []string) *prometheus.Desc {
		return prometheus.NewDesc("isolio_"+name, help, of, nil)
	}
	weightIs  = describe("weight", "Weight in effect on the disk.", labels)
	entitled  = describe("entitled_share_ratio", "Share of the disk that it is entitled to among those active now, 0 if it is not active.", labels)
	actual    = describe("actual_share_ratio", "Share of what the disk served between this scrape and the one before.", labels)
	bytesMade = describe("bytes_total", "Bytes of requests that went to the disk.", byDir)
	requests  = describe("requests_total", "Requests that went to the disk.", byDir)
	throttled = describe("throttled_seconds_total", "How long requests waited because it had had its share; the sum over hardware queues.", labels)
	latency   = describe("request_duration_seconds", "What requests took in the scheduler and the disk. The sum is made of the buckets, to within an eighth.", byDir)
)

// Describe tells all metrics.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{weightIs, entitled, actual, bytesMade, requests, throttled, latency} {
		to <- d
	}
}

// leastInterval is the shortest time that a share is of; who asks sooner gets
// the same one again.
const leastInterval = time.Second

// Collect reads all metrics.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.latest.At) >= leastInterval {
		sample, err := m.sampler.Sample()
		if err != nil {
			to <- prometheus.NewInvalidMetric(weightIs, err)
			return
		}
		m.latest = sample
	}
	histograms := map[source]meter.Histograms{}
	for i := range m.latest.Rows {
		r := &m.latest.Rows[i]
		if err := m.addLatency(histograms, r); err != nil {
			to <- prometheus.NewInvalidMetric(latency, err)
			return
		}
	}
	rows := usage.Fold(m.latest.Rows)
	for i := range rows {
		if rows[i].Counters.IOs() > 0 {
			h := histograms[source{rows[i].Cgroup, rows[i].MajMin}]
			collect(to, &rows[i], &h)
		}
	}
}

// source is a cgroup and a disk.
type source struct{ cgroup, majMin string }

// addLatency reads a cgroup's histograms of one disk, and adds them to those of
// the container that it is in.
func (m *Metrics) addLatency(to map[source]meter.Histograms, r *usage.Row) error {
	if r.Counters.IOs() == 0 {
		return nil
	}
	all, err := meter.ReadLatency(m.tree.Path(r.Cgroup))
	if err != nil {
		return err
	}
	at := source{r.Cgroup, r.MajMin}
	if r.Within != "" {
		at.cgroup = r.Within
	}
	for _, h := range all {
		if h.MajMin == r.MajMin {
			sum := to[at]
			sum.Read, sum.Write = append(sum.Read, h.Read...), append(sum.Write, h.Write...)
			to[at] = sum
		}
	}
	return nil
}

func collect(to chan<- prometheus.Metric, r *usage.Row, h *meter.Histograms) {
	of := []string{r.Cgroup, r.Name, r.Disk}
	gauge := func(d *prometheus.Desc, v float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, of...)
	}
	gauge(weightIs, float64(r.Weight))
	gauge(entitled, r.Entitled)
	gauge(actual, r.Actual)
	counter := func(d *prometheus.Desc, v float64, of ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, of...)
	}
	c := r.Counters
	counter(throttled, float64(c.ThrottledUS)/1e6, of...)
	for _, dir := range []struct {
		name       string
		bytes, ios uint64
		histogram  meter.Histogram
	}{{"read", c.ReadBytes, c.ReadIOs, h.Read}, {"write", c.WriteBytes, c.WriteIOs, h.Write}} {
		if dir.ios == 0 {
			continue
		}
		of := append(slices.Clip(of), dir.name)
		counter(bytesMade, float64(dir.bytes), of...)
		counter(requests, float64(dir.ios), of...)
		count, sum, buckets := cumulated(dir.histogram)
		to <- prometheus.MustNewConstHistogram(latency, count, sum, buckets, of...)
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
