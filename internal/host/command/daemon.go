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
	"isolio/internal/host/rule"
	"isolio/internal/plan"
	"isolio/internal/printable"
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
		Long: `Keep the weight of every cgroup, io.kyber.weight, as it is asked for. A rule in
` + rule.File + ` or ` + rule.Dir(rule.File) + ` asks for one; so do container runtimes and
systemd, which write io.bfq.weight and io.weight. The daemon translates these scales, so
that the weights' ratios are those that were asked for.

systemd starts the daemon. It can be killed at any moment: its state is in the kernel, in
/run/isolio and in /var/lib/isolio/promises. On SIGHUP it reads the rules again; if a
file has a mistake, the old rules stay in force. isolio.toml(5) has the keys of rules.

A weight that an operator or another program writes to io.kyber.weight stays until the
requested weight changes. In Kubernetes the daemon reads pods' annotations from
containerd or CRI-O over NRI, where the runtime offers that.

Once a second the daemon judges each [[promise]] in the rules: was it demanded, and was
it kept? 'isolio sla report' shows the answers. With metrics = "HOST:PORT" in the rules
the daemon serves Prometheus metrics on /metrics.

If the rules have a mistake at the start, the daemon exits with code 78, and systemd does
not start it again. With --once or --check the code is 2, as for every command.`,
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
	flags.DurationVar(&f.every, "every", time.Minute, "check all cgroups again after this `TIME`; changes that inotify reports are seen at once, new disks within five seconds")
	flags.BoolVar(&f.check, "check", false, "check the rules, print how many there are, and exit")
	flags.BoolVar(&f.once, "once", false, "set all weights once and exit")
	flags.BoolVar(&f.dryRun, "dry-run", false, "with --once: print what would be written, as shell commands")
	flags.BoolVar(&f.noNRI, "no-nri", false, "do not ask the container runtime for pods over NRI, whatever the rules say")
	return cmd
}

func (f *daemonFlags) run(cmd *cobra.Command) error {
	switch {
	case f.every < 100*time.Millisecond:
		return failure.Usagef("--every: %s is too short; allowed: 100ms or more", f.every)
	case f.dryRun && !f.once:
		return failure.Usagef("--dry-run: needs --once; add it")
	case f.noNRI && (f.check || f.once):
		return failure.Usagef("--no-nri: cannot be combined with --once or --check, which ask no runtime; leave one out")
	case f.check && f.once:
		return failure.Usagef("--check: cannot be combined with --once, which reads the rules as well; leave one out")
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
	// A second line: with 1000 containers the daemon takes about half of that.
	debug.SetMemoryLimit(heapMost)
	return d.Run(cmd.Context())
}

// heapMost is how much memory of its own the daemon has before it collects what is not used
// as often as it takes, in bytes. With the program's text that is less than 64 MB; the
// unit's MemoryMax is twice that.
const heapMost = 44 << 20

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
		text := idle.Finding
		if idle.Remedy != "" {
			text += "; remedy: " + idle.Remedy
		}
		fmt.Fprintln(w, text)
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
		// On one line, whatever it names: what follows is run by a shell.
		fmt.Fprintf(w, "# %s\n", printable.Text(changes[i].Why))
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
	if onJournal() {
		handler = newJournalHandler(sendToJournal, handler)
	}
	return slog.New(handler)
}
