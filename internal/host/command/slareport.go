// SPDX-License-Identifier: MIT

package command

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/slo"
)

// slaReportFlags are the flags of `isolio sla report`.
type slaReportFlags struct {
	root, since   string
	asJSON, asCSV bool
}

func newSLAReportCommand() *cobra.Command {
	var f slaReportFlags
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Show which promises were kept, and why others were not",
		Long: `Show how well each promise was kept: its availability, what is left of the error
budget, the worst hour, and the causes of misses. 'isolio daemon' keeps an account of
each second, for 30 days.

A promise is demanded in a second in which its tenant asks for as much. Availability is
the part of the demanded seconds in which the promise was kept. The causes of a miss:

  scheduler   the disk did not have kyber-fairness
  disk        the disk was slower than its profile
  oversold    others were entitled to too much
  depth       the tenant kept too few requests outstanding
  unknown     none of these

Misses by depth count neither for availability nor for the budget: the tenant had no
claim then. objective_pct in [sla] of /etc/isolio.toml is the availability to be kept.

--csv prints a line for each promise.`,
		Example: `  isolio sla report
  isolio sla report --since 36h
  isolio sla report --since 30d --csv > promises.csv
  isolio sla report --json | jq '.promises[] | select(.budget_left_pct < 0)'`,
		Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "7d", "of the last `TIME`: 90m, 36h, 7d; 30d at most")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON document instead of a table")
	flags.BoolVar(&f.asCSV, "csv", false, "print a table for spreadsheets")
	cli.RootFlag(cmd, &f.root)
	return cmd
}

// run prints the report of the histories. One that is damaged costs that one only.
func (f *slaReportFlags) run(cmd *cobra.Command) (err error) {
	if f.root, err = cli.RootDir(f.root); err != nil {
		return err
	}
	var write func(slo.Report, io.Writer) error
	chosen := 0
	for _, format := range []struct {
		on    bool
		write func(slo.Report, io.Writer) error
	}{
		{f.asJSON, slo.Report.WriteJSON}, {f.asCSV, slo.Report.WriteCSV},
	} {
		if format.on {
			write = format.write
			chosen++
		}
	}
	if chosen > 1 {
		return failure.Usagef("--json, --csv: %d are given; allowed: one of them", chosen)
	}
	since, err := sinceOf(f.since)
	if err != nil {
		return err
	}
	now := time.Now()
	past, faults, err := slo.HistoryAt(f.root).Read(now.Add(-since), now)
	if err != nil {
		return err
	}
	report := slo.NewReport(past, now.Add(-since), now)
	switch {
	case write != nil:
		err = write(report, cmd.OutOrStdout())
	case len(report.Promises) == 0:
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "There is no account of any promise: `isolio daemon` keeps one for each [[promise]] in /etc/isolio.toml.")
	default:
		err = report.WriteTable(cmd.OutOrStdout())
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		err = errors.Join(err, fmt.Errorf("%s: %w", name, faults[name]))
	}
	return err
}

// sinceOf reads a time as 90m, 36h or 7d.
func sinceOf(text string) (time.Duration, error) {
	const allowed = "5m to 30d, such as 90m, 36h, 7d"
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n float64
		if n, err = strconv.ParseFloat(days, 64); err == nil && n >= 0 && n <= 1000 {
			d = time.Duration(n * 24 * float64(time.Hour))
		}
	}
	switch {
	case err != nil:
		return 0, failure.Usagef("--since: %q is not a time; allowed: %s", text, allowed)
	case d < slo.Step || d > slo.Keeps:
		return 0, failure.Usagef("--since: %s is out of range; allowed: %s", text, allowed)
	}
	return d, nil
}
