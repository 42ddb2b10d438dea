// SPDX-License-Identifier: MIT

package experiment

import "fmt"

// maxCount is how many containers one table may stand for, all in one fio.
const maxCount = 4096

// maxCounted is how long the name of such containers may be: theirs are longer.
const maxCounted = 59

// Members is how many containers t stands for.
func (t *Container) Members() int { return max(1, t.Count) }

// MemberCgroups are the cgroups of t's containers. Where t stands for several,
// t.Cgroup is that of the fio which starts them.
func (t *Container) MemberCgroups() []string {
	if t.Count == 0 {
		return []string{t.Cgroup}
	}
	cgroups := make([]string, t.Count)
	for i := range cgroups {
		cgroups[i] = fmt.Sprintf("%s-%04d", t.Cgroup, i)
	}
	return cgroups
}

// count checks how many containers a table stands for; 0 is one.
func (c *checker) count(key string, f *fileContainer) int {
	if f.Count == nil {
		return 0
	}
	if name := value(f.Name, ""); len(name) > maxCounted {
		c.fail(key+".name", fmt.Sprintf("%q is too long for several containers", name), fmt.Sprintf("up to %d characters", maxCounted))
	}
	return c.integer(key+".count", f.Count, nil, 1, maxCount)
}

// processes refuses more processes than one fio starts.
func (c *checker) processes(key string, t *Container) {
	if n := t.Members() * t.Job.Count("numjobs", 1); t.Count > 0 && n > maxCount {
		c.fail(key+".count", fmt.Sprintf("%d processes are too many for one fio", n), fmt.Sprintf("count times numjobs up to %d", maxCount))
	}
}

// members is how many containers the case has.
func (k *Case) members() int {
	n := 0
	for i := range k.Containers {
		n += k.Containers[i].Members()
	}
	return n
}
