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

If standard input or output is not a terminal, top prints one plain table of one
interval. --json prints a line for each container, disk and interval, until --count
intervals are over or for ever.`,
		Example: `  isolio top
  isolio top --interval 5s --filter postgres
  isolio top --json --count 60 > minute.jsonl`,
		Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.root, "root", "", "work below `DIR` instead of /: sys is looked for there")
	flags.BoolVar(&f.json, "json", false, "print lines of JSON, not a table")
	flags.DurationVarP(&f.interval, "interval", "d", time.Second, "`TIME` from one sample to the next")
	flags.IntVarP(&f.count, "count", "n", 0, "print `N` intervals and exit; no live table")
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
	root, err := cli.RootDir(f.root)
	if err != nil {
		return err
	}
	sampler, err := newSampler(root)
	if err != nil {
		return err
	}
	if err := sampler.Check(); err != nil {
		return err
	}
	if screen := f.screen(cmd); screen != nil {
		return top.Show(cmd.Context(), sampler, f.interval, f.view, cmd.InOrStdin(), screen)
	}
	return f.print(cmd, sampler)
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
func (f *topFlags) print(cmd *cobra.Command, sampler *usage.Sampler) error {
	if _, err := sampler.Sample(); err != nil {
		return err
	}
	count := f.count
	if count == 0 && !f.json {
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
		sample, err := sampler.Sample()
		if err != nil {
			return err
		}
		rows := f.view.Apply(sample.Rows)
		if f.json {
			err = top.WriteJSON(cmd.OutOrStdout(), sample, rows)
		} else {
			if n > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			err = top.WriteTable(cmd.OutOrStdout(), rows)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
