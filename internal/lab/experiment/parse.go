// SPDX-License-Identifier: MIT

package experiment

import (
	"fmt"
	"regexp"
	"strings"

	"isolio/internal/tomlfile"
)

// The file's own shape. Pointers tell a missing key from a zero.
type file struct {
	Name             *string         `toml:"name"`
	Question         *string         `toml:"question"`
	Answers          *string         `toml:"answers"`
	Schedulers       []string        `toml:"schedulers"`
	Programs         []string        `toml:"programs"`
	Contender        []fileContender `toml:"contender"`
	Program          []fileProgram   `toml:"program"`
	RampS            *float64        `toml:"ramp_s"`
	DurationS        *float64        `toml:"duration_s"`
	Kernel           *string         `toml:"kernel"`
	NrRequests       *int64          `toml:"nr_requests"`
	CPUs             *int64          `toml:"cpus"`
	Seeds            *int64          `toml:"seeds"`
	SampleMS         *int64          `toml:"sample_ms"`
	ShareUnit        *string         `toml:"share_unit"`
	ReferenceCase    *string         `toml:"reference_case"`
	SharingReference *bool           `toml:"sharing_reference"`
	OwnDisk          *bool           `toml:"own_disk"`
	Critical         *string         `toml:"critical"`
	Device           *fileDevice     `toml:"device"`
	Job              map[string]any  `toml:"job"`
	Weights          []int64         `toml:"weights"`
	Container        []fileContainer `toml:"container"`
	Parent           []fileParent    `toml:"parent"`
	Change           []fileChange    `toml:"change"`
	Case             []fileCase      `toml:"case"`
	Expect           []fileExpect    `toml:"expect"`
}

// Parse reads an experiment from text; name stands for the file in messages.
// The error is one line: FILE:LINE: KEY: what is wrong; allowed: ...
func Parse(name string, text []byte) (*Experiment, error) {
	var f file
	if err := tomlfile.Decode(name, text, &f); err != nil {
		return nil, err
	}
	c := &checker{lines: tomlfile.Lines(text)}
	e := c.experiment(&f)
	if p := c.first(); p != nil {
		return nil, p.In(name)
	}
	e.File = name
	return e, nil
}

// kernelPattern keeps kernel lines fit for directory names.
var kernelPattern = regexp.MustCompile(`^[0-9]+\.[0-9]+(-[a-z0-9]+)?$`)

// namePattern keeps names fit for cgroups and file names.
var namePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

const nameRule = "1 to 64 of a-z, 0-9, '.', '_', '-', not starting with a mark"

// experiment checks f and returns what it says. The caller looks at
// c.first before it uses the result.
func (c *checker) experiment(f *file) *Experiment {
	e := &Experiment{
		Name:     c.name("name", f.Name),
		Question: required(c, "question", f.Question, "a sentence"),
		Answers:  value(f.Answers, ""),
		Kernel:   value(f.Kernel, DefaultKernel),
	}
	if !kernelPattern.MatchString(e.Kernel) {
		c.fail("kernel", fmt.Sprintf("%q is no line of kernels", e.Kernel), "as make setup KERNEL=LINE takes it, such as 6.1, 7.2 or 6.12-rt")
	}
	if f.NrRequests != nil {
		e.NrRequests = c.integer("nr_requests", f.NrRequests, nil, 4, 2048)
	}
	if strings.TrimSpace(e.Question) == "" || strings.Contains(e.Question, "\n") {
		c.fail("question", "must be one line of text", "a sentence")
	}
	e.Contenders = c.contenders(f)
	e.Schedulers = c.schedulers(f.Schedulers, e.Contenders)
	c.namedPrograms(f)
	e.Cases = c.sharingReferences(f, c.cases(f, e.Schedulers), e.Schedulers)
	c.contenderJobs(e)
	c.programsNeeded(f, e)
	c.iocostNeedsModel(e)
	c.shareUnit(f, e)
	c.plots(f, e)
	for i := range f.Expect {
		key := fmt.Sprintf("expect[%d]", i)
		for _, one := range c.each(key, f.Expect[i]) {
			e.Expect = append(e.Expect, c.expectations(key, &one, e)...)
		}
	}
	return e
}

func (c *checker) job(key string, set map[string]any) Job {
	job := Job{}
	for name, v := range set {
		text, wrong, allowed := checkOption(name, v)
		if wrong != "" {
			c.fail(key+"."+name, wrong, allowed)
			continue
		}
		job[name] = text
	}
	return job
}
