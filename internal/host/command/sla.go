// SPDX-License-Identifier: MIT

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/block"
	"isolio/internal/host/profile"
	"isolio/internal/host/rule"
	"isolio/internal/host/slo"
	"isolio/internal/tomlfile"
)

func newSLACommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sla",
		Short: "Promise containers a part of a disk, in requests or bytes a second",
		Args:  cli.Subcommand,
		RunE:  func(*cobra.Command, []string) error { return nil }, // its arguments are refused
	}
	cmd.AddCommand(newSLAPlanCommand(), newSLAReportCommand())
	return cmd
}

// slaFlags are the flags of `isolio sla plan`.
type slaFlags struct {
	root, file string
	whatIf     []string
	asJSON     bool
}

func newSLAPlanCommand() *cobra.Command {
	var f slaFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Turn promises into weights, and refuse what a disk does not have",
		Long: `Read the [[promise]] tables of /etc/isolio.toml, and check them against what
'isolio measure' found of each disk. Print how much of a disk is promised and left, and
of each promise the weight that follows from it and how many requests its owner must
keep outstanding to have it. Nothing is changed: the rules that it prints are for
/etc/isolio.toml.

Promises that are more than a disk has are refused with what to drop, exit code 1. A
promise that the disk could not keep alone is refused with the largest value that
fits, exit code 2. --what-if adds a promise that is not in the file.`,
		Example: `  isolio sla plan
  isolio sla plan --what-if 'name=batch,device=nvme0n1,read=5000 IOPS'
  isolio sla plan --json | jq '.plans[] | {disk, left_pct}'`,
		Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.file, "file", "", "read promises from `FILE` instead of "+rule.File+", and from FILE's directory")
	flags.StringArrayVar(&f.whatIf, "what-if", nil, "add a promise, its keys as in the file (`KEY=VALUE,...`); may be given again")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON document instead of tables")
	cli.RootFlag(cmd, &f.root)
	return cmd
}

func (f *slaFlags) run(cmd *cobra.Command) (err error) {
	if f.root, err = cli.RootDir(f.root); err != nil {
		return err
	}
	disks := slaDisks{sys: block.System{Root: f.root}, known: map[string]known{}}
	config, err := f.promises(&disks)
	if err != nil {
		return err
	}
	plans, err := disks.plan(config)
	if err != nil {
		return err
	}
	doc := slo.NewPlanDocument(plans)
	if f.asJSON {
		err = doc.WriteJSON(cmd.OutOrStdout())
	} else {
		err = doc.WriteTable(cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	var problems []string
	for _, p := range plans {
		if !p.Fits {
			problems = append(problems, fmt.Sprintf("%s: %s; drop %s", p.Disk, p.Problem, strings.Join(p.Drop, ", ")))
		}
	}
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// sold are all promises, and the settings.
type sold struct {
	promises []rule.Promise
	sla      rule.SLA
}

// promises reads those of the file and of --what-if.
func (f *slaFlags) promises(disks *slaDisks) (sold, error) {
	file := f.file
	if file == "" {
		file = block.System{Root: f.root}.Path(rule.File)
	}
	if f.file != "" {
		if _, err := os.Stat(f.file); err != nil {
			return sold{}, failure.Usagef("--file: %w", err)
		}
	}
	config, err := rule.LoadWith(f.root, file, disks.room)
	if err != nil {
		return sold{}, err
	}
	all := sold{sla: config.SLA}
	all.promises = append(all.promises, config.Promises...)
	for _, words := range f.whatIf {
		p, err := whatIf(words, disks.room)
		if err != nil {
			return sold{}, err
		}
		all.promises = append(all.promises, p)
	}
	if len(all.promises) == 0 {
		return sold{}, failure.Usagef("%s: there is no promise; allowed: [[promise]] tables, or --what-if", file)
	}
	return all, nil
}

// whatIfName stands for the file in messages.
const whatIfName = "--what-if"

// whatIf reads KEY=VALUE,... as a promise. A value is text, but for count.
func whatIf(words string, room rule.Room) (rule.Promise, error) {
	var keys []string
	for pair := range strings.SplitSeq(words, ",") {
		key, value, ok := strings.Cut(pair, "=")
		if key = strings.TrimSpace(key); !ok || key == "" || strings.ContainsFunc(key, notOfKey) {
			return rule.Promise{}, failure.Usagef("%s: %q is not KEY=VALUE; allowed: such as 'name=db,device=sda,read=5000 IOPS'", whatIfName, pair)
		}
		quoted, err := json.Marshal(strings.TrimSpace(value)) // JSON's strings are TOML's
		if err != nil {
			return rule.Promise{}, err
		}
		if key == "count" {
			quoted = []byte(strings.TrimSpace(value))
		}
		keys = append(keys, fmt.Sprintf("%s = %s", key, quoted))
	}
	config, err := rule.ParseWith(whatIfName, []byte("[[promise]]\n"+strings.Join(keys, "\n")), room)
	if err != nil { // its lines are not the operator's
		rest := strings.TrimLeft(strings.TrimPrefix(err.Error(), whatIfName+":"), "0123456789")
		return rule.Promise{}, failure.Usagef("%s%s", whatIfName, rest)
	}
	p := config.Promises[0]
	p.Line = 0
	return p, nil
}

func notOfKey(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' }

// slaDisks are the disks that promises are about, with their profiles.
type slaDisks struct {
	sys   block.System
	known map[string]known // by the name that a promise uses
}

type known struct {
	disk slo.SoldDisk
	err  error
}

// find returns a disk by a name that a promise uses.
func (s *slaDisks) find(name string) (slo.SoldDisk, error) {
	if k, ok := s.known[name]; ok {
		return k.disk, k.err
	}
	k := known{}
	var d *block.Device
	if d, k.err = s.sys.One(name); k.err == nil {
		k.disk.Name = d.Name
		k.disk.Profile, k.err = profile.Read(s.sys, d)
	}
	s.known[name] = k
	return k.disk, k.err
}

// room says what a disk has, for messages; "" where that is not known.
func (s *slaDisks) room(sla rule.SLA, device string, write, sequential bool, blockBytes int) string {
	d, err := s.find(device)
	if err != nil {
		return ""
	}
	return slo.RoomFor(d, sla, write, sequential, blockBytes)
}

// plan makes a plan for each disk, in the order of their names.
func (s *slaDisks) plan(all sold) ([]*slo.Plan, error) {
	on := map[string][]rule.Promise{}
	disks := map[string]slo.SoldDisk{}
	for _, p := range all.promises {
		d, err := s.find(p.Device)
		if err != nil {
			return nil, at(p, "device", err)
		}
		on[d.Name], disks[d.Name] = append(on[d.Name], p), d
	}
	var names []string
	for name := range on {
		names = append(names, name)
	}
	slices.Sort(names)
	var plans []*slo.Plan
	for _, name := range names {
		plan, err := slo.Make(disks[name], on[name], all.sla)
		if wrong, ok := errors.AsType[*slo.PlanError](err); ok {
			return nil, in(wrong)
		}
		if err != nil {
			return nil, err
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

// in is a promise that a disk cannot keep, with its place.
func in(wrong *slo.PlanError) error {
	return tomlfile.Problem{Line: lineOf(wrong.Promise, wrong.Key), Key: "promise." + wrong.Key, What: wrong.What, Allowed: wrong.Allowed}.In(wrong.Promise.File)
}

// at is what is wrong with a promise's disk, with its place.
func at(p rule.Promise, key string, err error) error {
	place := p.File
	if line := lineOf(p, key); line > 0 {
		place = fmt.Sprintf("%s:%d", place, line)
	}
	return failure.WithCode(fmt.Errorf("%s: promise.%s: %w", place, key, err), failure.Usage)
}

// lineOf is 0 for a promise of --what-if, which is one line.
func lineOf(p rule.Promise, key string) int {
	if p.Line == 0 {
		return 0
	}
	return p.Lines[key]
}
