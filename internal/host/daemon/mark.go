// SPDX-License-Identifier: MIT

package daemon

import (
	"encoding/json"
	"errors"
	"maps"
	"sync"

	"golang.org/x/sys/unix"
)

// A mark is what the daemon last wrote to a cgroup's io.kyber.weight, and what
// stood there before, by disk. A value that is neither is somebody else's.
type mark map[string]written

type written struct {
	Weight int `json:"weight"` // 0: taken back
	Before int `json:"before"` // 0: there was none
}

// markName is the extended attribute of a cgroup's directory that holds its mark.
// So it is there as long as the cgroup is, whatever becomes of the daemon, and
// a new cgroup of the same name has none.
const markName = "user.isolio.weight"

// marks remembers marks: in the cgroups, and where the file system has no
// attributes, for as long as the daemon runs.
type marks struct {
	mu     sync.Mutex
	memory map[string]mark
	room   [4096]byte
}

func (m *marks) get(dir string) mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := unix.Getxattr(dir, markName, m.room[:])
	if err != nil {
		return maps.Clone(m.memory[dir])
	}
	var found mark
	if json.Unmarshal(m.room[:n], &found) != nil {
		return nil // somebody else's attribute, or half of one: as good as none
	}
	return found
}

// set writes a mark before what it tells of is done.
func (m *marks) set(dir string, to mark) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(to) == 0 {
		delete(m.memory, dir)
		err := unix.Removexattr(dir, markName)
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
			return nil
		}
		return err
	}
	text, err := json.Marshal(to)
	if err != nil {
		return err
	}
	err = unix.Setxattr(dir, markName, text, 0)
	if errors.Is(err, unix.ENOTSUP) {
		if m.memory == nil {
			m.memory = map[string]mark{}
		}
		m.memory[dir] = maps.Clone(to)
		return nil
	}
	return err
}

// forget drops what is remembered of a cgroup that is gone.
func (m *marks) forget(dir string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.memory, dir)
}
