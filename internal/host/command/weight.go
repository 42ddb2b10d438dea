// SPDX-License-Identifier: MIT

package command

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/machine"
	"isolio/internal/host/setweight"
	"isolio/internal/host/target"
	"isolio/internal/host/view"
	"isolio/internal/host/weight"
	"isolio/internal/plan"
	"isolio/internal/plan/shell"
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
		Use:   "weight TARGET... [N]",
		Short: "Show or set the weight of a container, unit, pod or cgroup",
		Long: `Show the weights of targets, or set them to N. Either all targets get N, or none. A
target is a cgroup's path, a systemd unit, the name or ID of a container of Docker,
podman, containerd or CRI-O, or a pod (NAME, NAMESPACE/NAME or ID). Podman's pods, and
containers that are rootless, have just their IDs.

N, the last word if it is a number, is 1 to 10000; 'default' goes back to 100. A
container gets a disk in proportion to its weight among its active siblings: 200 is
twice 100. 'sum' is the sum of the weights of the active children of a slice or a pod:
they share with its siblings as if they were siblings themselves. It takes
kyber-fairness.

The command writes the weight where the disks' schedulers read it. It lasts as long as
the cgroup. If the cgroup is a systemd unit and not a container, the command sets the
unit's property too, on systemd's scale. So the weight of a service or slice (not a
pod's) survives its restart and, without --runtime, a reboot.

Without a disk that shares by weight the command exits 3: the weight would do nothing.`,
		Example: `  isolio weight web
  isolio weight web 500
  isolio weight web db cache 300
  isolio weight nginx.service 200 --device /dev/nvme0n1
  isolio weight machine.slice/libpod-0a1b2c.scope default
  isolio weight shop/cart-7d9f 300 --dry-run
  isolio weight machine.slice sum`,
		Args:              cli.AtLeast(1),
		ValidArgsFunction: completeWeight(&f.root),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if f.root, err = cli.RootDir(f.root); err != nil {
				return err
			}
			targets, number := splitWeight(args)
			if err := oneOutput(f.dryRun, f.asJSON); err != nil {
				return err
			}
			if number != "" {
				return f.set(cmd, targets, number)
			}
			if f.dryRun || f.runtime {
				return failure.Usagef("--dry-run, --runtime: need a weight; add N")
			}
			return f.show(cmd, nil, targets)
		},
	}
	flags := cmd.Flags()
	cmd.SetFlagErrorFunc(numberError)
	flags.StringVar(&f.device, "device", "", "the weight on the disk `DEV` only")
	flags.BoolVar(&f.runtime, "runtime", false, "of a unit: only until the next boot")
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

// splitWeight takes the weight off the targets: the last word, if it is one. A single word
// is a target.
func splitWeight(args []string) (targets []string, number string) {
	last := len(args) - 1
	if last > 0 && weight.Meant(args[last]) {
		return args[:last], args[last]
	}
	return args, ""
}

// set gives a weight to all targets, or to none.
func (f *weightFlags) set(cmd *cobra.Command, names []string, number string) error {
	n, err := weightNumber(number)
	if err != nil {
		return err
	}
	disks := []string{""} // all of them
	if f.device != "" {
		if disks, err = choose(cmd, f.root, f.device); err != nil {
			return err
		}
	}
	seen, err := machine.Read(f.root)
	if err != nil {
		return err
	}
	var found []target.Target
	var plans []*setweight.Plan
	var steps []plan.Step
	var paths, notes []string
	for _, name := range names {
		one, err := seen.Find(name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(found, func(other target.Target) bool { return other.Group == one.Group }) {
			continue
		}
		found, paths = append(found, one), append(paths, "/"+one.Group)
		for _, disk := range disks {
			p, err := setweight.Decide(seen, setweight.Request{Target: one, Device: disk, N: n, Runtime: f.runtime})
			if err != nil {
				return err
			}
			notes = append(notes, p.Notes...)
			if seen.BadRules != nil {
				notes = append(notes, fmt.Sprintf("%v; whether a rule is for %s is not known", seen.BadRules, one))
			}
			plans, steps = append(plans, p), append(steps, p.Steps...)
		}
	}
	for _, note := range notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "isolio: %s\n", note)
	}
	if f.dryRun {
		return plan.Print(cmd.OutOrStdout(), steps)
	}
	verify := func() error {
		for _, p := range plans {
			if err := p.Verify(); err != nil {
				return err
			}
		}
		return nil
	}
	if err := apply(steps, verify); err != nil {
		return err
	}
	for _, p := range plans {
		if f.root == "" {
			tellJournal(p.Target(), p.Steps)
		}
	}
	return f.show(cmd, seen, paths)
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
		e := journalEntry{Cgroup: of.Group, Before: s.Undo, Weight: s.Value, By: "operator", User: printable.Text(user), Why: "isolio weight"}
		if of.Kind == target.ContainerKind {
			e.Name = printable.Text(of.Name)
		}
		if disk, _, ok := strings.Cut(s.Value, " "); ok {
			e.Disk = disk
		}
		_ = sendToJournal("weight cgroup="+printable.Text(of.Group)+" value="+s.Value+" by=operator user="+e.User, slog.LevelInfo, e.Fields())
	}
}

const allowedWeights = "1..10000, sum, or default"

// weightNumber reads N; 0 stands for "default".
func weightNumber(text string) (weight.Value, error) {
	if text == "default" {
		return 0, nil
	}
	n, err := weight.ParseValue(text)
	if err != nil || weight.Kyber.Check(n) != nil {
		return 0, failure.Usagef("weight %q: allowed: %s", text, allowedWeights)
	}
	return n, nil
}

// show prints weights, of the machine as it was seen before a change, nil for none.
func (f *weightFlags) show(cmd *cobra.Command, seen *machine.Snapshot, names []string) error {
	doc, err := view.ReadStatus(cmd.Context(), view.StatusOptions{Root: f.root, Machine: seen, Only: names, Device: f.device})
	if failure.Code(err) == failure.Usage && len(names) > 1 {
		return fmt.Errorf("%w; or, for a weight, the last word is one of: %s", err, allowedWeights)
	}
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

// targets are the names of cgroups, for a shell to complete. One that a shell would not take
// for a word is left out: bash puts what several names begin with on the command line as it
// is, and a tenant chooses names.
func targets(dir string) []string {
	root, err := cli.Absolute(dir)
	if err != nil {
		return nil
	}
	world, err := target.ReadWorld(root, nil)
	if err != nil {
		return nil
	}
	var names []string
	for _, group := range world.Groups {
		name := world.Of(group).Name
		// systemd's names have backslashes, which a shell at worst leaves out.
		if bare := strings.ReplaceAll(name, `\`, ""); shell.Quote(bare) == bare && !strings.HasPrefix(bare, "-") {
			names = append(names, name)
		}
	}
	return names
}

// completeTargets lets a shell complete so many targets, 0 for any number. One that is
// there is not offered again.
func completeTargets(dir *string, most int) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := slices.DeleteFunc(targets(*dir), func(name string) bool { return slices.Contains(args, name) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeWeight lets a shell complete targets, and the words for weights after one.
func completeWeight(dir *string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if _, number := splitWeight(args); number != "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, directive := completeTargets(dir, 0)(cmd, args, begin)
		if len(args) > 0 {
			names = append(names, "default", weight.Sum.String())
		}
		return names, directive
	}
}
