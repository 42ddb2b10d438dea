// SPDX-License-Identifier: MIT

package experiment

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Plan is what is measured, and what is expected of it, as canonical JSON: defaults are filled
// in, keys are sorted, and what only readers see (comments, the question, labels) is left out.
// Zero values are left out too, so that a key that is new in the format changes no plan
// without it.
func (e *Experiment) Plan() ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.File, err)
	}
	return text, nil
}

// vmName stands for the experiment's name in a VM.
const vmName = "lab"

// ForVM is the plan of one contender in one case: what its VM gets. It has nothing of what
// the host does with the measurement, such as expectations.
func (e *Experiment) ForVM(k *Case, contender string) ([]byte, error) {
	alone := &Experiment{
		File: e.File, Name: vmName, Schedulers: []string{contender}, NrRequests: e.NrRequests,
		Contenders: slices.DeleteFunc(slices.Clone(e.Contenders), func(c Contender) bool { return c.Name != contender }),
		Cases:      []Case{*k},
	}
	alone.Cases[0].Schedulers, alone.Cases[0].ReferenceCase, alone.Cases[0].OwnDisk = nil, "", false
	return alone.Plan()
}

// FromPlan reads what Plan or ForVM wrote; name stands for the file in messages.
func FromPlan(name string, text []byte) (*Experiment, error) {
	e := &Experiment{File: name}
	if err := json.Unmarshal(text, e); err != nil {
		return nil, fmt.Errorf("%s: not a plan: %w; the VM is booted by another version of isolio-lab, build both", name, err)
	}
	return e, nil
}
