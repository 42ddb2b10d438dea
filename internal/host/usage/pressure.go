// SPDX-License-Identifier: MIT

package usage

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// readPressure is the avg10 of the first line of a cgroup's io.pressure; nil where there is
// none, as in the root, or with psi=0 on the kernel's command line.
func readPressure(dir string) *float64 {
	text, err := os.ReadFile(filepath.Join(dir, "io.pressure"))
	if err != nil {
		return nil
	}
	rest, there := strings.CutPrefix(string(text), "some avg10=")
	number, _, _ := strings.Cut(rest, " ")
	pct, err := strconv.ParseFloat(number, 64)
	if !there || err != nil || !(pct >= 0 && pct <= 100) {
		return nil
	}
	return &pct
}
