// SPDX-License-Identifier: MIT

package usage

import (
	"time"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/policy"
)

// TakeIOSample reads the counters of every group.
func TakeIOSample(t cgroup.Tree) (policy.IOSample, error) {
	groups, err := t.Groups()
	if err != nil {
		return policy.IOSample{}, err
	}
	s := policy.IOSample{At: time.Now(), Groups: append([]string{policy.RootGroup}, groups...), Stats: map[string]map[string]cgroup.IOStat{}}
	for _, group := range s.Groups {
		stats, err := t.IOStats(group)
		if err != nil {
			continue // of this one nothing is known; the others have their shares
		}
		s.Stats[group] = stats
	}
	return s, nil
}
