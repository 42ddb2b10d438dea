// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/target"
	"isolio/internal/table"
)

// logFlags are the flags of `isolio log`.
type logFlags struct {
	root, since string
	asJSON      bool
}

func newLogCommand() *cobra.Command {
	var f logFlags
	cmd := &cobra.Command{
		Use:   "log [TARGET]",
		Short: "Show who changed which weight, when and why",
		Long: `Show each weight that the daemon or 'isolio weight' wrote, from systemd's journal:
when, of which cgroup, what it was before, and why. A TARGET is a cgroup's path, a
unit, or a container's or pod's name; of a container that is gone, the name.

The journal has what it keeps: see SystemMaxUse= in journald.conf(5). A weight
that was written in another way, such as with echo, is not in it.`,
		Example: `  isolio log
  isolio log web
  isolio log nginx.service --since '-2h'
  isolio log --json | jq 'select(.by == "operator")'`,
		Args:              cli.Between(0, 1),
		ValidArgsFunction: completeTargets(&f.root, 1),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "only what happened after this `TIME`, as journalctl takes it: '2026-11-01', '-2h', 'today'")
	flags.BoolVar(&f.asJSON, "json", false, "print lines of JSON instead of a table")
	flags.StringVar(&f.root, "root", "", "work below `DIR` instead of /: sys, and usr/bin/journalctl, are looked for there")
	return cmd
}

func (f *logFlags) run(cmd *cobra.Command, args []string) error {
	root, err := cli.RootDir(f.root)
	if err != nil {
		return err
	}
	program := "journalctl"
	if root != "" {
		program = filepath.Join(root, "usr/bin/journalctl")
	}
	query := journalQuery()
	if f.since != "" {
		query = append(query, "--since="+f.since)
	}
	called := exec.CommandContext(cmd.Context(), program, query...)
	var said bytes.Buffer
	called.Stderr = &said
	text, err := called.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return failure.Unsupportedf("log: %s: is not there; needed: systemd's journal, which has isolio's log", program)
	case strings.Contains(said.String(), "Failed to parse timestamp"):
		return failure.Usagef("--since: %q; allowed: a time as journalctl takes it, such as -2h, today or 2026-11-01", f.since)
	case err != nil:
		return failure.Usagef("log: journalctl: %w; it says: %s", err, strings.Join(strings.Fields(said.String()), " "))
	}
	entries, err := readJournal(bytes.NewReader(text))
	if err != nil {
		return err
	}
	if len(args) == 1 {
		entries = about(root, args[0], entries)
	}
	if len(entries) == 0 {
		of := ""
		if len(args) == 1 {
			of = " of " + args[0]
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "isolio: the journal has no change of a weight%s\n", of)
	}
	return writeLog(cmd.OutOrStdout(), entries, f.asJSON)
}

// about leaves entries of one target.
func about(root, name string, entries []journalEntry) []journalEntry {
	group := strings.Trim(name, "/")
	if world, err := target.ReadWorld(root, nil); err == nil {
		if found, err := world.Find(name); err == nil {
			group = found.Group
		}
	}
	return slices.DeleteFunc(entries, func(e journalEntry) bool { return e.Cgroup != group && e.Name != name })
}

func writeLog(w io.Writer, entries []journalEntry, asJSON bool) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	var rows [][]string
	for _, e := range entries {
		if asJSON {
			if err := encoder.Encode(e); err != nil {
				return err
			}
			continue
		}
		name, by := e.Name, e.By
		if name == "" {
			name = e.Cgroup
		}
		if e.User != "" {
			by += " " + e.User
		}
		rows = append(rows, []string{e.Time.UTC().Format(time.RFC3339), name, e.Disk, e.Before, e.Weight, by, e.Why})
	}
	if asJSON || len(rows) == 0 {
		return nil
	}
	return table.Write(w, []table.Column{
		{Head: "time"}, {Head: "of"}, {Head: "disk"}, {Head: "before", Right: true}, {Head: "weight", Right: true}, {Head: "by"}, {Head: "why"},
	}, rows)
}
