// SPDX-License-Identifier: MIT

package view

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/machine"
	"isolio/internal/kmod"
	"isolio/internal/table"
)

// DiagnosisSchema is the version of the document; keys may be added without a new one.
const DiagnosisSchema = 1

// CheckState is how a check came out.
type CheckState string

// States, from good to bad. With a warning isolio works, but not everything or
// not for good.
const (
	OK      CheckState = "ok"
	Warning CheckState = "warning"
	Fails   CheckState = "fails"
)

// Check is one thing that was looked at.
type Check struct {
	Name    string     `json:"name"`
	State   CheckState `json:"state"`
	Finding string     `json:"finding"`
	// Remedy is what to do, "" where all is well.
	Remedy string `json:"remedy,omitempty"`
}

// Diagnosis is what `isolio doctor --json` prints.
type Diagnosis struct {
	Schema int     `json:"schema"`
	Kernel string  `json:"kernel"`
	Checks []Check `json:"checks"`
}

// examination is what is looked at.
type examination struct {
	sys     block.System
	release string
	// module is the file of the scheduler's module, "" for none.
	module string
	// Snapshot is what one look at the machine found.
	*machine.Snapshot
	// noCgroups is why there is no cgroup tree, nil if there is one.
	noCgroups error
	disks     []block.Info
}

// Examine looks at the machine below root, "" for /.
func Examine(root string) (*Diagnosis, error) {
	m := examination{sys: block.System{Root: root}}
	m.Snapshot, m.noCgroups = machine.Read(root)
	m.release = m.sys.Release()
	var err error
	if m.module, err = kmod.Installed(root, m.release, moduleName); err != nil {
		return nil, err
	}
	if m.noCgroups != nil && failure.Code(m.noCgroups) != failure.Unsupported {
		return nil, m.noCgroups
	}
	if m.disks, err = m.sys.All(); err != nil {
		return nil, err
	}
	d := &Diagnosis{Schema: DiagnosisSchema, Kernel: m.release}
	for _, check := range []func() []Check{
		m.kernel, m.btf, m.headers, m.fits, m.replaced, m.otherKernels, m.secureBoot, m.cgroups, m.controller, m.slots, m.takers, m.room, m.boot, m.rules, m.tuned, m.systemd, m.classes, m.daemon, m.weightRules,
	} {
		d.Checks = append(d.Checks, check()...)
	}
	return d, nil
}

// Err is an error if a check fails: this machine, as it is, cannot do it.
func (d *Diagnosis) Err() error {
	var failed []string
	for _, c := range d.Checks {
		if c.State == Fails {
			failed = append(failed, c.Name)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return failure.Unsupportedf("doctor: %d of %d checks fail: %s", len(failed), len(d.Checks), strings.Join(failed, ", "))
}

// WriteJSON writes the document as indented JSON.
func (d *Diagnosis) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(d)
}

// states are in the order of the table: what is to be done first comes first.
var states = []CheckState{Fails, Warning, OK}

// WriteTable writes a row for each check, below it the remedy; failures first.
func (d *Diagnosis) WriteTable(w io.Writer) error {
	var rows [][]string
	checks := slices.SortedStableFunc(slices.Values(d.Checks), func(a, b Check) int {
		return slices.Index(states, a.State) - slices.Index(states, b.State)
	})
	for _, c := range checks {
		rows = append(rows, []string{c.Name, string(c.State), c.Finding})
		if c.Remedy != "" {
			rows = append(rows, []string{"", "", "remedy: " + c.Remedy})
		}
	}
	return table.Write(w, []table.Column{{Head: "check"}, {Head: "state", Paint: paintState}, {Head: "finding"}}, rows)
}

// paintState is the color of a state.
func paintState(cell string) table.Color {
	return map[CheckState]table.Color{OK: table.Green, Warning: table.Yellow, Fails: table.Red}[CheckState(cell)]
}

// ok, warning and fails are one check's result.
func ok(name, format string, args ...any) []Check {
	return []Check{{Name: name, State: OK, Finding: fmt.Sprintf(format, args...)}}
}

func warning(name, finding, remedy string) []Check {
	return []Check{{name, Warning, finding, remedy}}
}

func fails(name, finding, remedy string) []Check {
	return []Check{{name, Fails, finding, remedy}}
}

// read is a file's text without the space around it, "" if there is none.
func (m *examination) read(path string) string {
	text, _ := os.ReadFile(m.sys.Path(path))
	return strings.TrimSpace(string(text))
}

func (m *examination) exists(path string) bool {
	_, err := os.Stat(m.sys.Path(path))
	return err == nil
}
