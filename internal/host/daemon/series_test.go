// SPDX-License-Identifier: MIT

package daemon

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"isolio/internal/host/usage"
	"isolio/internal/must"
	"isolio/internal/printable"
)

// What is written is what Prometheus' own reader reads: numbers, histograms and labels,
// whatever a tenant calls its container, also where it does not fit into one write.
func TestSeriesAreReadByPrometheus(t *testing.T) {
	hostile := "a\"b\\c\nd} 7\x1b[2J\xff"
	sum := &total{name: hostile, disk: "sda", weight: 300, entitled: 0.25, cost: 1 << 40}
	c := &sum.counters
	c.ReadBytes, c.ReadIOs, c.ThrottledUS = 1<<53-1, 12, 1500000
	sum.latency.read = timesIn(usage.Histogram{
		{Under: 16384 * time.Nanosecond, Count: 3}, {Under: 60 * time.Millisecond, Count: 4}, {Under: usage.NoBound, Count: 5},
	})
	all := []series{seriesOf("/"+hostile, sum), seriesOf(others, sum)}
	for range 2000 {
		all = append(all, seriesOf("/many/"+strings.Repeat("x", len(all)%97)+"/"+time.Duration(len(all)).String(), sum))
	}
	var page bytes.Buffer
	must.OK(t, writeSeries(&page, all))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&page)
	must.OK(t, err)
	for _, f := range []struct {
		name string
		n    int
		want float64
	}{
		{"isolio_bytes_total", len(all), 1<<53 - 1}, {"isolio_requests_total", len(all), 12}, {"isolio_served_total", len(all), 1 << 40},
		{"isolio_throttled_seconds_total", len(all), 1.5}, {"isolio_entitled_share_ratio", len(all), 0.25}, {"isolio_weight", len(all) - 1, 300},
	} {
		got := families[f.name].GetMetric()
		if len(got) != f.n {
			t.Fatalf("%s: %d samples, want %d", f.name, len(got), f.n)
		}
		if v := got[0].GetCounter().GetValue() + got[0].GetGauge().GetValue(); v != f.want {
			t.Errorf("%s is %v, want %v", f.name, v, f.want)
		}
	}
	labels := map[string]string{}
	for _, l := range families["isolio_bytes_total"].GetMetric()[0].GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	if labels["device"] != "sda" || labels["direction"] != "read" || labels["container"] != printable.Text(hostile) {
		t.Errorf("labels %q", labels)
	}
	h := families["isolio_request_duration_seconds"].GetMetric()[0].GetHistogram()
	if h.GetSampleCount() != 12 || len(h.GetBucket()) != nrBounds+1 {
		t.Fatalf("%d requests in %d buckets", h.GetSampleCount(), len(h.GetBucket()))
	}
	if first, last, infinite := h.GetBucket()[0], h.GetBucket()[nrBounds-1], h.GetBucket()[nrBounds]; first.GetCumulativeCount() != 3 || last.GetCumulativeCount() != 7 || infinite.GetCumulativeCount() != 12 {
		t.Errorf("buckets %v, %v, %v", first, last, infinite)
	}
}
