// SPDX-License-Identifier: MIT

package command

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/assignment"
	"isolio/internal/host/journal"
	"isolio/internal/host/rule"
	"isolio/internal/host/status"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
	"isolio/internal/plan"
	"isolio/internal/printable"
)

// weightFlags are the flags of `isolio weight`.
type weightFlags struct {
	root, device            string
	asJSON, dryRun, runtime bool
}

func newWeightCommand() *cobra.Command {
	var f weightFlags
	cmd := &cobra.Command{
		Use:   "weight TARGET [N]",
		Short: "Show or set the weight of a container, unit, pod or cgroup",
		Long: `Show a target's weight, or set it to N. A target is a cgroup's path, a systemd
unit, the name or ID of a container of Docker, podman, containerd or CRI-O, or
a pod (NAME, NAMESPACE/NAME or ID). Podman's pods, and containers that are
rootless, have just their IDs.

N is 1 to 10000; 'default' goes back to 100. A container gets a disk in proportion to
its weight among its active siblings: 200 is twice 100. 'sum' is the sum of the weights
of the active children of a slice or a pod: they share with its siblings as if they were
siblings themselves. It takes kyber-fairness.

The command writes the weight where the disks' schedulers read it. It lasts as long as
the cgroup. If the cgroup is a systemd unit and not a container, the command sets the
unit's property too, on systemd's scale. So the weight of a service or slice (not a
pod's) survives its restart and, without --runtime, a reboot.

Without a disk that shares by weight the command exits 3: the weight would do nothing.`,
		Example: `  isolio weight web
  isolio weight web 500
  isolio weight nginx.service 200 --device /dev/nvme0n1
  isolio weight machine.slice/libpod-0a1b2c.scope default
  isolio weight shop/cart-7d9f 300 --dry-run
  isolio weight machine.slice sum`,
		Args:              cli.Between(1, 2),
		ValidArgsFunction: completeTargets(&f.root),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if f.root, err = cli.RootDir(f.root); err != nil {
				return err
			}
			if args[0] == "" {
				return failure.Usagef("target %q: it is empty; `isolio status --all` lists what there is", args[0])
			}
			if f.device == "" && cmd.Flags().Changed("device") {
				return failure.Usagef("--device: is empty; leave it out for all disks")
			}
			if err := oneOutput(f.dryRun, f.asJSON); err != nil {
				return err
			}
			if len(args) == 2 {
				return f.set(cmd, args[0], args[1])
			}
			if f.dryRun || f.runtime {
				return failure.Usagef("--dry-run, --runtime: stand without a weight; add N")
			}
			return f.show(cmd, args[0])
		},
	}
	flags := cmd.Flags()
	cmd.SetFlagErrorFunc(numberError)
	flags.StringVar(&f.device, "device", "", "the weight on the disk `DEV` only")
	flags.BoolVar(&f.runtime, "runtime", false, "have systemd forget it with the next boot")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print every change as a shell command; change nothing")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON document instead of a table")
	cli.RootFlag(cmd, &f.root)
	_ = cmd.RegisterFlagCompletionFunc("device", completeDisks(&f.root)) // the flag is there
	return cmd
}

// numberError is flagError, but takes -1 for the weight that it was meant as.
func numberError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		number := "-" + unknown.GetSpecifiedShortnames()
		if _, err := strconv.Atoi(number); err == nil {
			_, err := weightNumber(number)
			return err
		}
	}
	return cli.FlagError(cmd, err)
}

func (f *weightFlags) set(cmd *cobra.Command, name, number string) error {
	n, err := weightNumber(number)
	if err != nil {
		return err
	}
	config, noRules := rule.Load(filepath.Join("/", f.root, rule.File))
	world, err := target.Read(f.root, config.Keeps)
	if err != nil {
		return err
	}
	found, err := world.Find(name)
	if err != nil {
		return err
	}
	p, err := assignment.Decide(world, assignment.Request{Root: f.root, Target: found, Device: f.device, N: n, Runtime: f.runtime, Rules: config.Rules})
	if err != nil {
		return err
	}
	if noRules != nil {
		p.Notes = append(p.Notes, fmt.Sprintf("%v; whether a rule is for %s is not known", noRules, found))
	}
	for _, note := range p.Notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "isolio: %s\n", note)
	}
	if f.dryRun {
		return plan.Print(cmd.OutOrStdout(), p.Steps)
	}
	if err := apply(p.Steps, p.Verify); err != nil {
		return err
	}
	if f.root == "" {
		tellJournal(found, p.Steps)
	}
	return f.show(cmd, "/"+found.Group)
}

// apply applies steps, all or none: what does not look afterwards as it should
// is taken back as well. A connection that is lost meanwhile does not end it halfway;
// nor do signals that main catches.
func apply(steps []plan.Step, verify func() error) error {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	applied := plan.On(plan.OS{})
	err := applied.Apply(steps)
	if err == nil {
		err = verify()
	}
	if err != nil {
		if undo := applied.Undo(); undo != nil {
			return fmt.Errorf("%w; and %w", err, undo)
		}
		return err
	}
	return nil
}

// tellJournal notes in the journal which weights an operator wrote, for `isolio
// log`. Without a journal nothing is lost but that.
func tellJournal(of target.Target, steps []plan.Step) {
	user := os.Getenv("SUDO_USER")
	if user == "" {
		user = os.Getenv("USER")
	}
	for _, s := range steps {
		if s.Command != nil {
			continue
		}
		e := journal.Entry{Cgroup: of.Group, Before: s.Undo, Weight: s.Value, By: "operator", User: printable.Text(user), Why: "isolio weight"}
		if of.Kind == target.Container {
			e.Name = printable.Text(of.Name)
		}
		if disk, _, ok := strings.Cut(s.Value, " "); ok {
			e.Disk = disk
		}
		_ = journal.Send("weight cgroup="+printable.Text(of.Group)+" value="+s.Value+" by=operator user="+e.User, slog.LevelInfo, e.Fields())
	}
}

// weightNumber reads N; 0 stands for "default".
func weightNumber(text string) (weight.Value, error) {
	if text == "default" {
		return 0, nil
	}
	n, err := weight.ParseValue(text)
	if err != nil || weight.Kyber.Check(n) != nil {
		return 0, failure.Usagef("weight %q: allowed: 1..10000, sum, or default", text)
	}
	return n, nil
}

func (f *weightFlags) show(cmd *cobra.Command, name string) error {
	doc, err := status.Read(cmd.Context(), status.Options{Root: f.root, Only: name, Device: f.device})
	if err != nil {
		return err
	}
	if doc.NoCgroups != "" {
		return failure.Unsupportedf("%s", doc.NoCgroups)
	}
	if f.asJSON {
		return doc.WriteJSON(cmd.OutOrStdout())
	}
	return doc.WriteGroups(cmd.OutOrStdout())
}

// completeTargets lets a shell complete one target.
func completeTargets(dir *string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		root, err := cli.Absolute(*dir)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		world, err := target.Read(root, nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, group := range world.Groups {
			names = append(names, world.Of(group).Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
