// SPDX-License-Identifier: MIT

// Package plan is changes to a machine as data: decided first, printed by
// --dry-run, and then applied by code that decides nothing and can take
// every change back.
package plan

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"isolio/internal/plan/shell"
)

// Step is one change: a directory made, a command run, a file system mounted,
// an ordinary file made or removed, or a value written to a kernel file.
type Step struct {
	// Mkdir makes the directory Path.
	Mkdir bool
	// Create makes the file Path, and its directory, with the text Value. Undo
	// is what was there before, "" for no file.
	Create bool
	// Remove removes the file Path. Undo is its text.
	Remove bool
	// Command is a program with its arguments to run, nil for none.
	Command []string
	// Mount is the device whose file system of type Value is mounted at Path, "" for none.
	Mount string
	// Otherwise Value is written to the file Path.
	Path  string
	Value string
	// IfDiffers leaves a file alone that holds Value already: a kernel may refuse
	// to be told what it has.
	IfDiffers bool
	// UndoCommand takes back what Command did, nil for nothing.
	UndoCommand []string
	// Undo is what to write to Path to take the write back, "" for nothing. A
	// directory that was made is removed, and what was mounted is unmounted.
	Undo string
	// Name is short for Path where the context is known, such as
	// "queue/scheduler".
	Name string
	// Explain makes a message of the kernel's error; nil for the plain one.
	Explain func(error) error
}

// String is the step as a shell command.
func (s Step) String() string {
	switch {
	case s.Mkdir:
		return shell.Join("mkdir", s.Path)
	case s.Create:
		return shell.Join("mkdir", "-p", filepath.Dir(s.Path)) + "\n" + shell.Write(s.Path, s.Value)
	case s.Remove:
		return shell.Join("rm", s.Path)
	case s.Command != nil:
		return shell.Join(s.Command...)
	case s.Mount != "":
		return shell.Join("mount", "-t", s.Value, s.Mount, s.Path)
	}
	return shell.Echo(s.Value, s.Path)
}

// Print writes steps as shell commands, one a line.
func Print(w io.Writer, steps []Step) error {
	var b strings.Builder
	for _, s := range steps {
		b.WriteString(s.String() + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Machine is what steps are applied to.
type Machine interface {
	Mkdir(path string) error
	Read(path string) (string, error)
	Write(path, value string) error
	Rmdir(path string) error
	Create(path, text string) error
	Remove(path string) error
	Run(command []string) error
	Mount(device, path, kind string) error
	Unmount(path string) error
}

// Applied remembers steps that were applied, so that they can be undone.
type Applied struct {
	machine Machine
	steps   []Step
}

// On starts with a machine that nothing was changed on.
func On(m Machine) *Applied {
	return &Applied{machine: m}
}

// Apply applies steps in order and stops at the first error. What was applied
// stays until Undo.
func (a *Applied) Apply(steps []Step) error {
	for _, s := range steps {
		if err := a.apply(s); err != nil {
			if s.Explain != nil {
				err = s.Explain(err)
			}
			return err
		}
		a.steps = append(a.steps, s)
	}
	return nil
}

func (a *Applied) apply(s Step) error {
	switch {
	case s.Mkdir:
		return a.machine.Mkdir(s.Path)
	case s.Create:
		return a.machine.Create(s.Path, s.Value)
	case s.Remove:
		return a.machine.Remove(s.Path)
	case s.Command != nil:
		return a.machine.Run(s.Command)
	case s.Mount != "":
		return a.machine.Mount(s.Mount, s.Path, s.Value)
	}
	if s.IfDiffers {
		if now, err := a.machine.Read(s.Path); err == nil && now == s.Value {
			return nil
		}
	}
	if err := a.machine.Write(s.Path, s.Value); err != nil {
		return fmt.Errorf("write %q to %s: %w", s.Value, s.Path, cause(err))
	}
	return nil
}

// Undo takes back what was applied, last first. It goes on after an error and
// returns all of them. A second Undo does nothing.
func (a *Applied) Undo() error {
	var errs []error
	for _, s := range slices.Backward(a.steps) {
		var err error
		switch {
		case s.Mkdir:
			err = a.machine.Rmdir(s.Path)
		case s.Create && s.Undo == "":
			err = a.machine.Remove(s.Path)
		case s.Create, s.Remove:
			err = a.machine.Create(s.Path, s.Undo)
		case s.UndoCommand != nil:
			err = a.machine.Run(s.UndoCommand)
		case s.Mount != "":
			err = a.machine.Unmount(s.Path)
		case s.Undo != "":
			if err = a.machine.Write(s.Path, s.Undo); err != nil {
				err = fmt.Errorf("write %q to %s: %w", s.Undo, s.Path, cause(err))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("undo: %w", err))
		}
	}
	a.steps = nil
	return errors.Join(errs...)
}
