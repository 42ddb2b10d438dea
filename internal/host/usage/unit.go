// SPDX-License-Identifier: MIT

package usage

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Unit is what a disk's cgroups share, as queue/iosched/share_by has it.
type Unit struct {
	Name string // "bytes", "iops" or "time"
	// What a read and a write is charged, for itself and for each byte.
	read, write rate
}

type rate struct{ request, perByte float64 }

func (r rate) cost(ios, bytes uint64) float64 {
	return r.request*float64(ios) + r.perByte*float64(bytes)
}

// Cost is how much of the unit some requests are; only what two costs are to
// each other means something.
func (u Unit) Cost(c Counters) float64 {
	return u.read.cost(c.ReadIOs, c.ReadBytes) + u.write.cost(c.WriteIOs, c.WriteBytes)
}

// ReadUnit reads a disk's unit; queue is its directory /sys/block/NAME/queue.
func ReadUnit(queue string) (Unit, error) {
	file := filepath.Join(queue, "iosched", "share_by")
	text, err := os.ReadFile(file)
	if err != nil {
		return Unit{}, err
	}
	name := ""
	for word := range strings.FieldsSeq(string(text)) {
		if trimmed := strings.Trim(word, "[]"); trimmed != word {
			name = trimmed
		}
	}
	switch name {
	case "bytes":
		return Unit{name, rate{0, 1}, rate{0, 1}}, nil
	case "iops":
		return Unit{name, rate{1, 0}, rate{1, 0}}, nil
	case "time":
		return readModel(filepath.Join(queue, "iosched", "cost_model"))
	}
	return Unit{}, fmt.Errorf("%s: %q names no unit that is known", file, strings.TrimSpace(string(text)))
}

// pageBytes is the size of the requests that a model's iops are of.
const pageBytes = 4096

// readModel reads a cost_model: bytes a second with large requests, and
// requests of 4 KiB a second, so that a request takes a time of its own besides
// that of its bytes.
func readModel(file string) (Unit, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Unit{}, err
	}
	_, words, _ := bytes.Cut(bytes.TrimSpace(text), []byte{' '}) // after "auto" or "user"
	figures := map[string]float64{}
	if err := eachNumber(words, func(key string, n uint64) { figures[key] = float64(n) }); err != nil {
		return Unit{}, fmt.Errorf("%s: %w", file, err)
	}
	direction := func(bps, iops string) rate {
		perByte := 1 / figures[bps]
		return rate{max(0, 1/figures[iops]-pageBytes*perByte), perByte}
	}
	for _, key := range []string{"rbps", "riops", "wbps", "wiops"} {
		if figures[key] <= 0 {
			return Unit{}, fmt.Errorf("%s: %s is missing in %q", file, key, bytes.TrimSpace(text))
		}
	}
	return Unit{"time", direction("rbps", "riops"), direction("wbps", "wiops")}, nil
}
