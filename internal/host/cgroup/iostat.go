// SPDX-License-Identifier: MIT

package cgroup

// IOStat counts what a group, and those below it, submitted to one disk since
// the group was made. A request that the kernel splits counts once for each
// of its parts; those that a scheduler merges count one by one.
type IOStat struct {
	ReadBytes, WriteBytes, ReadIOs, WriteIOs uint64
}

// IOs are both directions'.
func (s IOStat) IOs() uint64 { return s.ReadIOs + s.WriteIOs }

// Plus adds what another group did.
func (s IOStat) Plus(other IOStat) IOStat {
	return IOStat{
		s.ReadBytes + other.ReadBytes, s.WriteBytes + other.WriteBytes,
		s.ReadIOs + other.ReadIOs, s.WriteIOs + other.WriteIOs,
	}
}

// WentBack reports whether any counter is lower than it was last: then they were
// begun again, and their difference means nothing.
func (s IOStat) WentBack(last IOStat) bool {
	return s.ReadBytes < last.ReadBytes || s.WriteBytes < last.WriteBytes || s.ReadIOs < last.ReadIOs || s.WriteIOs < last.WriteIOs
}

// Minus is what was counted since it was last.
func (s IOStat) Minus(last IOStat) IOStat {
	return IOStat{
		s.ReadBytes - last.ReadBytes, s.WriteBytes - last.WriteBytes,
		s.ReadIOs - last.ReadIOs, s.WriteIOs - last.WriteIOs,
	}
}

// Counter is the member that has the kernel's name, nil for none.
func (s *IOStat) Counter(name string) *uint64 {
	switch name {
	case "rbytes":
		return &s.ReadBytes
	case "wbytes":
		return &s.WriteBytes
	case "rios":
		return &s.ReadIOs
	case "wios":
		return &s.WriteIOs
	}
	return nil
}
