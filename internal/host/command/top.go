// SPDX-License-Identifier: MIT

package command

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/machine"
	"isolio/internal/host/top"
	"isolio/internal/host/usage"
	"isolio/internal/printable"
)

// topFlags are the flags of `isolio top`.
type topFlags struct {
	root     string
	json     bool
	interval time.Duration
	count    int
	record   string
	replay   string
	at       string
	view     top.View
}

func newTopCommand() *cobra.Command {
	f := topFlags{view: top.DefaultView()}
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch which container uses which disk, and what it is entitled to",
		Long: `Show a live table of which container uses which disk: its weight, its entitled and
its measured share of the disk, bandwidth, requests a second, and latencies of the
last seconds. A further column is the part of the time in which the scheduler
throttled the container at its share. It is summed over hardware queues, so it can
exceed 100 %. The last column tells what decided the weight: a rule, the request to a
runtime or to systemd, or an operator; 'isolio explain' has the whole chain.

Keys: s and S choose the column to sort by, r reverses the order, / filters and
escape ends that, t shows the tree of cgroups with sums, i hides idle containers,
arrows and page keys scroll, space pauses, q quits.

The column PSI% is how much of the last 10 s some task of the container waited for I/O,
on any disk (the kernel's io.pressure).

--record adds what is shown to a file; --replay shows such a file again, from the time
--at on. There [ and ] go a sample back and on, { and } 60 of them. A file of 50
containers every 10 s grows by 200 MB a day: let logrotate cut it, with copytruncate.

If standard input or output is not a terminal, top prints one plain table of one
interval. --json prints a line for each container, disk and interval, until --count
intervals are over or for ever.`,
		Example: `  isolio top
  isolio top --interval 5s --filter postgres
  isolio top --json --count 60 > minute.jsonl
  systemd-run isolio top --record /var/log/isolio-top.jsonl --interval 10s
  isolio top --replay /var/log/isolio-top.jsonl --at "2026-11-28 03:00"`,
		Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.root, "root", "", "work below `DIR` instead of /: sys is looked for there")
	flags.BoolVar(&f.json, "json", false, "print lines of JSON, not a table")
	flags.DurationVarP(&f.interval, "interval", "d", time.Second, "`TIME` from one sample to the next")
	flags.IntVarP(&f.count, "count", "n", 0, "print `N` intervals and exit; no live table")
	flags.StringVar(&f.record, "record", "", "add each interval to `FILE`, as lines of JSON; without a terminal until --count or a signal")
	flags.StringVar(&f.replay, "replay", "", "show what --record or --json wrote to `FILE`, not this machine")
	flags.StringVar(&f.at, "at", "", "with --replay, begin at `TIME`, such as 03:00 or \"2026-11-28 03:00\"")
	flags.StringVar(&f.view.Filter, "filter", "", "show only containers, cgroups and disks with this `TEXT` in the name")
	flags.BoolVar(&f.view.Tree, "tree", false, "show the tree of cgroups, with sums")
	return cmd
}

func (f *topFlags) run(cmd *cobra.Command) error {
	if f.interval < time.Millisecond {
		return failure.Usagef("--interval: %s is too short; allowed: 1ms or more", f.interval)
	}
	if f.count < 0 {
		return failure.Usagef("--count: %d is negative; allowed: 1 or more, or 0 for no end", f.count)
	}
	if f.replay != "" && f.record != "" {
		return failure.Usagef("--replay: is beside --record; allowed: one of the two")
	}
	if f.replay != "" {
		return f.play(cmd)
	}
	if f.at != "" {
		return failure.Usagef("--at: needs --replay FILE")
	}
	root, err := cli.RootDir(f.root)
	if err != nil {
		return err
	}
	sampler, err := newSampler(root)
	if err != nil {
		return err
	}
	sampler.Pressures = true
	if err := sampler.Check(); err != nil {
		return err
	}
	var from top.Source = sampler
	if f.record != "" {
		file, err := top.OpenRecord(f.record)
		if err != nil {
			return err
		}
		defer file.Close()
		from = &top.Recorder{Source: sampler, File: file}
	}
	if screen := f.screen(cmd); screen != nil {
		return top.Show(cmd.Context(), from, f.interval, f.view, cmd.InOrStdin(), screen)
	}
	return f.print(cmd, from)
}

// play shows a recording: live, or --count intervals of it.
func (f *topFlags) play(cmd *cobra.Command) error {
	at, err := timeOf(f.at)
	if err != nil {
		return err
	}
	replay, err := top.OpenReplay(f.replay, at)
	if err != nil {
		return err
	}
	if screen := f.screen(cmd); screen != nil {
		return top.Show(cmd.Context(), replay, f.interval, f.view, cmd.InOrStdin(), screen)
	}
	count := f.count
	if count == 0 && !f.json {
		count = 1
	}
	for n := 0; (count == 0 || n < count) && replay.Left() > 0; n++ {
		sample, err := replay.Sample()
		if err != nil {
			return err
		}
		if err := f.write(cmd.OutOrStdout(), sample, n == 0); err != nil {
			return err
		}
	}
	return nil
}

// timeOf reads a time of --at; one without a date is of the last 24 hours.
func timeOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			now := time.Now()
			at = time.Date(now.Year(), now.Month(), now.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.Local)
			if at.After(now) {
				at = at.AddDate(0, 0, -1)
			}
			return at, nil
		}
	}
	return time.Time{}, failure.Usagef("--at: %q is not a time; allowed: 03:00, \"2026-11-28 03:00\", 2026-11-28T03:00:00Z", text)
}

// newSampler looks at the machine below root, and knows its containers and who decided
// their weights.
func newSampler(root string) (*usage.Sampler, error) {
	tree, err := cgroup.Find(root)
	if err != nil {
		return nil, err
	}
	explainer := machine.NewExplainer(root, tree)
	return &usage.Sampler{System: block.System{Root: root}, Containers: explainer.Containers, Reasons: explainer.For, Histories: true}, nil
}

// screen is the terminal to show a live table on, nil if there is none, or none
// whose keys can be read.
func (f *topFlags) screen(cmd *cobra.Command) io.Writer {
	// The live table draws with escapes of its own, and makes names printable itself.
	out := printable.Under(cmd.OutOrStdout())
	if f.json || f.count > 0 || !isTerminal(cmd.InOrStdin()) || !isTerminal(out) {
		return nil
	}
	return out
}

// isTerminal reports whether a stream is one.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// print prints intervals, each after it has passed.
func (f *topFlags) print(cmd *cobra.Command, from top.Source) error {
	if _, err := from.Sample(); err != nil {
		return err
	}
	count := f.count
	if count == 0 && !f.json && f.record == "" {
		count = 1
	}
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	for n := 0; count == 0 || n < count; n++ {
		select {
		case <-cmd.Context().Done():
			return nil
		case <-ticker.C:
		}
		sample, err := from.Sample()
		if err != nil {
			return err
		}
		if f.record != "" && !f.json {
			continue
		}
		if err := f.write(cmd.OutOrStdout(), sample, n == 0); err != nil {
			return err
		}
	}
	return nil
}

// write writes a sample as lines of JSON or as a table, after others a line further down.
func (f *topFlags) write(w io.Writer, sample usage.Sample, isFirst bool) error {
	rows := f.view.Apply(sample.Rows)
	if f.json {
		return top.WriteJSON(w, sample, rows)
	}
	if !isFirst {
		fmt.Fprintln(w)
	}
	if f.replay != "" {
		fmt.Fprintln(w, sample.At.Format(time.DateTime))
	}
	return top.WriteTable(w, rows)
}
