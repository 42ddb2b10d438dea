// SPDX-License-Identifier: MIT

package command

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/daemon"
	"isolio/internal/host/journal"
	"isolio/internal/host/rule"
	"isolio/internal/plan"
)

// daemonFlags are the flags of `isolio daemon`.
type daemonFlags struct {
	root, config               string
	every                      time.Duration
	check, once, dryRun, noNRI bool
}

func newDaemonCommand() *cobra.Command {
	var f daemonFlags
	cmd := &cobra.Command{
		Use:   "daemon",
		Short: "Keep io.kyber.weight as containers and units ask for it",
		Long: `Keep io.kyber.weight of every cgroup in step with what is asked for: by a rule in
` + rule.File + ` or ` + rule.Dir(rule.File) + `, or by what container runtimes and systemd write to io.bfq.weight and
io.weight, translated so that weights are to each other what was asked.

It judges each [[promise]] in the rules once a second, demanded or not, kept or not;
'isolio sla report' shows that.

It is made to be run by systemd, and can be killed at any moment: all that it
knows is in the kernel, in /run/isolio and in /var/lib/isolio/promises. SIGHUP has it read the rules again; a file with a mistake
changes nothing. With metrics = "HOST:PORT" in the rules it serves Prometheus
metrics on /metrics. A weight that an operator or another program writes to
io.kyber.weight stays until the requested weight changes. In Kubernetes it takes pods' annotations from containerd
or CRI-O over NRI, where the runtime offers that. isolio.toml(5) has the keys of rules.

A mistake in the rules ends it with exit code 78, so that systemd does not start it
again; with --once or --check it is 2, as everywhere.`,
		Example: `  systemctl enable --now isolio
  isolio daemon --once --dry-run
  isolio daemon --check
  systemctl reload isolio`,
		Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.root, "root", "", "work below `DIR` instead of /: sys, etc and what runtimes keep are looked for there")
	flags.StringVar(&f.config, "config", "", "read rules from `FILE`, not "+rule.File+"; and from FILE's directory, as that from "+rule.Dir(rule.File))
	flags.DurationVar(&f.every, "every", time.Minute, "look at everything again after this `TIME`; what inotify tells is seen at once, other disks within five seconds")
	flags.BoolVar(&f.check, "check", false, "read the rules, say how many there are, and end")
	flags.BoolVar(&f.once, "once", false, "set all weights once and end")
	flags.BoolVar(&f.dryRun, "dry-run", false, "with --once: print what would be written, as shell commands")
	flags.BoolVar(&f.noNRI, "no-nri", false, "do not ask the container runtime for pods over NRI, whatever the rules say")
	return cmd
}

func (f *daemonFlags) run(cmd *cobra.Command) error {
	switch {
	case f.every < 100*time.Millisecond:
		return failure.Usagef("--every: %s is too short; allowed: 100ms or more", f.every)
	case f.dryRun && !f.once:
		return failure.Usagef("--dry-run: stands without --once; add that")
	case f.noNRI && (f.check || f.once):
		return failure.Usagef("--no-nri: stands beside --once or --check, which ask no runtime; leave one out")
	case f.check && f.once:
		return failure.Usagef("--check: stands beside --once, which reads the rules as well; leave one out")
	}
	root, err := cli.RootDir(f.root)
	if err != nil {
		return err
	}
	file := f.config
	if file == "" {
		file = filepath.Join("/", root, rule.File)
	} else if _, err := os.Stat(file); err != nil {
		return failure.Usagef("--config: %w", err)
	}
	if f.check {
		return checkRules(cmd.OutOrStdout(), block.System{Root: root}, file)
	}
	d := &daemon.Daemon{Root: root, RuleFile: file, Every: f.every, NoNRI: f.noNRI, Log: logger(cmd.ErrOrStderr())}
	err = d.Open()
	if failure.Code(err) == failure.Usage && !f.once {
		return failure.WithCode(err, failure.Config)
	}
	if err != nil {
		return err
	}
	switch {
	case f.dryRun:
		return preview(cmd.OutOrStdout(), d)
	case f.once:
		_, err := d.Once(cmd.Context())
		return err
	}
	// It shares the machine with those whom it serves: with less, memory is
	// collected at every look, which costs more than the look.
	debug.SetGCPercent(75)
	return d.Run(cmd.Context())
}

// checkRules tells whether a daemon would take the rules, and which of them are
// for a disk that is not there now: it may come.
func checkRules(w io.Writer, sys block.System, file string) error {
	config, err := rule.Load(sys.Root, file)
	if err != nil {
		return err
	}
	if len(config.Files) == 0 {
		fmt.Fprintf(w, "%s: 0 rules\n", file)
	}
	for _, from := range config.Files {
		fmt.Fprintf(w, "%s: %d rules\n", from.Name, from.Rules)
	}
	for _, idle := range config.Idle(sys) {
		fmt.Fprintln(w, idle)
	}
	return nil
}

// preview prints what a daemon would write, with the reasons.
func preview(w io.Writer, d *daemon.Daemon) error {
	changes, err := d.Preview()
	if err != nil {
		return err
	}
	for i := range changes {
		fmt.Fprintf(w, "# %s\n", changes[i].Why)
		if err := plan.Print(w, []plan.Step{changes[i].Step}); err != nil {
			return err
		}
	}
	return nil
}

// logger writes lines of KEY=VALUE, or entries of systemd's journal, which have
// priorities and fields.
func logger(w io.Writer) *slog.Logger {
	var handler slog.Handler = slog.NewTextHandler(w, nil)
	if journal.Here() {
		handler = journal.NewHandler(journal.Send, handler)
	}
	return slog.New(handler)
}
