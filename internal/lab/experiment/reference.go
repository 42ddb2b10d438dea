// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// What a case of the file's gets as its reference.
const (
	referenceSuffix    = "-reference"
	referenceContainer = "all"
)

// SharingDepth is how many requests exact sharing allows in flight. All requests see about
// the same latency, so that by Little's law a container's part of the requests in flight is
// its share; the container whose depth is the least multiple of its share limits all:
// N* = min over containers of depth / share, and no more than all containers have.
func (k *Case) SharingDepth() float64 {
	least, all := math.Inf(1), 0
	shares := k.Entitled()
	for i := range k.Containers {
		t := &k.Containers[i]
		depth := t.Job.Depth() * t.Members()
		all += depth
		least = min(least, float64(depth)/shares[i])
	}
	return min(least, float64(all))
}

// sharingReferences adds to each case that asks for it, in which there is more than none,
// a case after it: its reference, with none and one container that keeps as many requests
// outstanding as exact sharing allows.
func (c *checker) sharingReferences(f *file, cases []Case, schedulers []string) []Case {
	const key = "sharing_reference"
	if len(f.Case) == 0 {
		if value(f.SharingReference, false) {
			c.fail(key, "needs cases, to which it adds some", "[[case]], each with a name")
		}
		return cases
	}
	var all []Case
	for i := range cases {
		k := &cases[i]
		c.within = fmt.Sprintf("case[%d].", i)
		own := f.Case[i].SharingReference
		if asked := value(own, value(f.SharingReference, false)); !asked || own == nil && slices.Equal(k.Schedulers, []string{"none"}) {
			all = append(all, *k)
			continue
		}
		name := k.Name + referenceSuffix
		switch {
		case !slices.Contains(schedulers, "none"):
			c.fail(key, "needs none among the schedulers", "add none")
		case k.ReferenceCase != "":
			c.fail(key, "does not go with reference_case", "one or the other")
		case slices.ContainsFunc(cases, func(other Case) bool { return other.Name == name }):
			c.fail(key, fmt.Sprintf("%q is the name of another case", name), "another name for that")
		case !namePattern.MatchString(name):
			c.fail(key, fmt.Sprintf("%q is not a name", name), nameRule)
		}
		if problem := k.unequal(); problem != "" {
			c.fail(key, problem, "containers with the same job but for iodepth and numjobs, that send all the time")
		}
		k.ReferenceCase = name
		all = append(all, *k)
		if len(k.Containers) > 0 {
			all = append(all, k.reference(name))
		}
	}
	c.within = ""
	return all
}

// unequal says why there is no one load in place of the containers', "" if there is.
func (k *Case) unequal() string {
	common := func(t *Container) Job {
		job := maps.Clone(t.Job)
		delete(job, "iodepth")
		delete(job, "numjobs")
		return job
	}
	for i := range k.Containers {
		t := &k.Containers[i]
		if t.Program != nil {
			return fmt.Sprintf("container %s has a command", t.Name)
		}
		if !maps.Equal(common(t), common(&k.Containers[0])) {
			return fmt.Sprintf("containers %s and %s have other jobs", k.Containers[0].Name, t.Name)
		}
		for _, option := range []string{"rate", "rate_iops", "thinktime", "number_ios"} {
			if _, set := t.Job[option]; set {
				return fmt.Sprintf("container %s has %s, so that it does not send all the time", t.Name, option)
			}
		}
		if t.StartS > k.RampS || t.EndS < k.RampS+k.DurationS || len(t.Pauses) > 0 {
			return fmt.Sprintf("container %s is not there all the time", t.Name)
		}
	}
	return ""
}

// reference is the case with none and one container in place of all.
func (k *Case) reference(name string) Case {
	ref := *k
	ref.Name, ref.ReferenceCase, ref.OwnDisk, ref.Schedulers, ref.Parents, ref.SampleMS = name, "", false, []string{"none"}, nil, 0
	t := Container{
		Name: referenceContainer, Cgroup: referenceContainer, Weight: defaultWeight,
		EndS: k.RampS + k.DurationS, Job: k.Containers[0].Job.overlaid(nil),
	}
	// An engine that waits for each request has a process for each.
	delete(t.Job, "numjobs")
	depth := strconv.Itoa(max(1, int(math.Round(k.SharingDepth()))))
	t.Job["iodepth"] = depth
	if t.Job.Depth() == 1 {
		delete(t.Job, "iodepth")
		t.Job["numjobs"] = depth
	}
	ref.Containers = []Container{t}
	return ref
}

// inCase names a case in a message, also the only one of an experiment that lists none.
func inCase(name string) string { return strings.TrimSpace("case " + name) }

// noReference says that a case has no reference, or that none does not run there.
func (x Expectation) noReference() string {
	if x.ReferenceCase == "" {
		return inCase(x.Case) + " has no reference case"
	}
	return notIn(x.ReferenceCase, "none")
}
