// SPDX-License-Identifier: MIT

package driver

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"isolio/deploy/node/internal/disk"
	"isolio/internal/host/state"
)

// Metrics are what Prometheus is told. The methods do nothing on nil.
type Metrics struct {
	shares, given *prometheus.GaugeVec
	pods, lacking prometheus.Gauge
	unseen        prometheus.Gauge
	claims        *prometheus.CounterVec
	errors        prometheus.Counter

	mu sync.Mutex
	// series are the labels of shares and given.
	series map[[2]string]bool
}

// NewMetrics registers them.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		shares:  prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "isolio_node_disk_shares", Help: "Shares that the node offers of a disk; 0 while weights do not act on it."}, []string{"device", "disk"}),
		given:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "isolio_node_disk_shares_given", Help: "Shares of a disk that pods of the node have."}, []string{"device", "disk"}),
		pods:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "isolio_node_pods", Help: "Pods that have a share or a default weight of the cluster."}),
		lacking: prometheus.NewGauge(prometheus.GaugeOpts{Name: "isolio_node_disks_not_enabled", Help: "Disks that were to be shared by weight, and could not be enabled."}),
		unseen:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "isolio_node_pods_unseen", Help: "1 while no daemon of the node sees pods that come, so that no shares are for sale; else 0."}),
		claims:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "isolio_node_prepared_claims_total", Help: "Claims that kubelet had prepared, by result."}, []string{"result"}),
		errors:  prometheus.NewCounter(prometheus.CounterOpts{Name: "isolio_node_errors_total", Help: "Errors of what runs beside kubelet's calls, such as publishing disks."}),
	}
	r.MustRegister(m.shares, m.given, m.pods, m.lacking, m.unseen, m.claims, m.errors)
	for _, result := range []string{"ok", "failed"} {
		m.claims.WithLabelValues(result)
	}
	return m
}

func (m *Metrics) promised(b state.Claims, disks []disk.Disk) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	series := map[[2]string]bool{}
	for _, d := range disks {
		m.shares.WithLabelValues(d.Device, d.Name).Set(float64(d.ForSale()))
		m.given.WithLabelValues(d.Device, d.Name).Set(float64(b.Promised(d.Device)))
		series[[2]string{d.Device, d.Name}] = true
	}
	// No series that stays is away for a moment: a scrape may be just then.
	for labels := range m.series {
		if !series[labels] {
			m.shares.DeleteLabelValues(labels[0], labels[1])
			m.given.DeleteLabelValues(labels[0], labels[1])
		}
	}
	m.series = series
	m.pods.Set(float64(len(b.Pods)))
}

func (m *Metrics) prepared(err error) {
	if m == nil {
		return
	}
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.claims.WithLabelValues(result).Inc()
}

func (m *Metrics) lacks(disks int) {
	if m != nil {
		m.lacking.Set(float64(disks))
	}
}

func (m *Metrics) sees(unseen string) {
	if m == nil {
		return
	}
	m.unseen.Set(0)
	if unseen != "" {
		m.unseen.Set(1)
	}
}

func (m *Metrics) failed() {
	if m != nil {
		m.errors.Inc()
	}
}
