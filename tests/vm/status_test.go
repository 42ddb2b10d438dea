// SPDX-License-Identifier: MIT

//go:build vm

package vm

import "isolio/internal/host/weight"

// status is what the tests read of `isolio status --json`. The room that prints it has the live
// table's screen too, which takes 20 ms to start: too long for a program that tests run as
// hundreds of short tasks.
type status struct {
	Disks  []statusDisk  `json:"disks"`
	Groups []statusGroup `json:"cgroups"`
}

type statusDisk struct {
	Name      string             `json:"name"`
	MajMin    string             `json:"maj_min"`
	WeightsBy []weight.Mechanism `json:"weights_by"`
	ShareBy   string             `json:"share_by"`
}

type statusGroup struct {
	Group   string         `json:"cgroup"`
	Weights []statusWeight `json:"weights"`
	Shares  []statusShare  `json:"shares"`
}

type statusWeight struct {
	File   string   `json:"file"`
	ActsOn []string `json:"acts_on"`
	Inert  []struct {
		Why string `json:"why"`
	} `json:"inert"`
}

type statusShare struct {
	Disk     string  `json:"disk"`
	Weight   int     `json:"weight"`
	Entitled float64 `json:"entitled_share"`
	Actual   float64 `json:"share"`
	IOPS     float64 `json:"iops"`
}
