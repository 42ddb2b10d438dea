// SPDX-License-Identifier: MIT

package driver

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"isolio/deploy/node/internal/disk"
	"isolio/internal/host/block"
	"isolio/internal/host/state"
)

// A disk has its series at each moment while looks go on, and none once it is gone.
func TestSeries(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	m := NewMetrics(registry)
	one := disk.Disk{Info: block.Info{Name: "sda"}, Device: "wwid-1"}
	two := disk.Disk{Info: block.Info{Name: "sdb"}, Device: "wwid-2"}
	series := func() (n int) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "isolio_node_disk_shares" || f.GetName() == "isolio_node_disk_shares_given" {
				n += len(f.GetMetric())
			}
		}
		return n
	}
	m.promised(state.Claims{}, []disk.Disk{one, two})
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				m.promised(state.Claims{}, []disk.Disk{one, two})
			}
		}
	}()
	missing := 0
	for range 2000 {
		if series() != 4 {
			missing++
		}
	}
	close(stop)
	<-ended
	if missing > 0 {
		t.Errorf("a series was missing in %d of 2000 scrapes", missing)
	}
	m.promised(state.Claims{}, []disk.Disk{two})
	if n := series(); n != 2 {
		t.Errorf("%d series of one disk", n)
	}
}
