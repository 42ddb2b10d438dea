// SPDX-License-Identifier: MIT

package view

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"isolio/internal/host/block"
	"isolio/internal/host/policy"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/host/usage"
	"isolio/internal/host/weight"
	"isolio/internal/plan/shell"
	"isolio/internal/printable"
)

func (m *examination) cgroups() []Check {
	const name = "cgroup v2"
	if m.noCgroups == nil {
		return ok(name, "%s has the io controller", m.shown(m.Tree.Root))
	}
	finding, remedy, _ := strings.Cut(m.noCgroups.Error(), "; ")
	if strings.Contains(remedy, "systemd.unified_cgroup_hierarchy") {
		remedy += "; on cgroup v1 kyber-fairness has weights too, in blkio.kyber.weight, which isolio does not write"
	}
	return fails(name, finding, remedy)
}

// controller tells which containers and pods have no weight because the io
// controller ends above them. systemd passes it on to whom it gives a weight.
func (m *examination) controller() []Check {
	const name = "io controller"
	if m.noCgroups != nil {
		return nil // as for cgroups
	}
	blocked := map[string][]string{} // by the group at which it ends
	var order []string
	for _, group := range m.wanted() {
		if end, ends := m.endsAt(group); ends {
			if blocked[end] == nil {
				order = append(order, end)
			}
			blocked[end] = append(blocked[end], m.Of(group).Name)
		}
	}
	if len(order) == 0 {
		return ok(name, "reaches every container and pod (%d)", len(m.wanted()))
	}
	var checks []Check
	for _, end := range order {
		finding := fmt.Sprintf("ends at %s: %d of the containers and pods cannot have a weight, such as %s", at(end), len(blocked[end]), blocked[end][0])
		checks = append(checks, warning(name, finding, m.passOn(end))...)
	}
	return checks
}

// A cgroup may hold two of a queue's requests whatever its weight is. Where those are more than
// half of the requests, what is left is not enough for cgroups that are entitled to many.
const requestsEach = 4

// room tells of disks that more cgroups use than there are requests for. It says nothing of
// others.
func (m *examination) room() []Check {
	if m.noCgroups != nil {
		return nil
	}
	var checks []Check
	active := m.active()
	for i := range m.disks {
		d := &m.disks[i]
		need := requestsEach * active[d.MajMin]
		if d.Scheduler != scheduler || need <= d.NrRequests {
			continue
		}
		finding := fmt.Sprintf("%d cgroups use %s, which has %d requests: each cgroup may hold two, so that those of larger weights get too few", active[d.MajMin], d.Name, d.NrRequests)
		checks = append(checks, warning("requests", finding, fmt.Sprintf("echo %d >/sys/block/%s/queue/nr_requests, or as many as the disk takes", need, d.Name))...)
	}
	return checks
}

// active counts the cgroups that use each disk, by its number.
func (m *examination) active() map[string]int {
	n := map[string]int{}
	for _, group := range m.Groups {
		stat, err := m.Tree.Keyed(group, usage.StatFile)
		if err != nil {
			continue // it is gone, or the module is
		}
		for disk, values := range stat {
			if values["share_ppm"] > 0 {
				n[disk]++
			}
		}
	}
	return n
}

func at(group string) string {
	if group == policy.RootGroup {
		return "the root cgroup"
	}
	return group
}

// passOn is how to have the io controller in a group's children.
func (m *examination) passOn(group string) string {
	if strings.Contains(group, "user@") || strings.HasPrefix(group, "user.slice") {
		return "Delegate=cpu io memory pids in a drop-in of user@.service, for rootless containers"
	}
	if _, systemd := target.SystemdOn(m.sys.Root); systemd && (group == policy.RootGroup || target.UnitOf(group) != "") {
		return "give one of them a weight with `isolio weight`: systemd then passes the controller on; or set IOAccounting=yes in the unit"
	}
	return shell.Echo("+io", m.shown(m.Tree.Path(group, "cgroup.subtree_control")))
}

// wanted are the groups that an operator may want to weigh.
func (m *examination) wanted() []string {
	var groups []string
	for _, group := range m.Groups {
		if kind := m.Of(group).Kind; kind == target.ContainerKind || kind == target.PodKind {
			groups = append(groups, group)
		}
	}
	return groups
}

// endsAt is the highest group that does not pass the io controller on to where
// group is.
func (m *examination) endsAt(group string) (end string, ends bool) {
	var dirs []string
	for dir := filepath.Dir(group); dir != policy.RootGroup; dir = filepath.Dir(dir) {
		dirs = append([]string{dir}, dirs...)
	}
	for _, dir := range append([]string{policy.RootGroup}, dirs...) {
		if passes, err := m.Tree.Passes(dir); err == nil && !passes {
			return dir, true
		}
	}
	return "", false
}

// policies are those in the kernel's slots, by the word after "io." in the names
// of the files that they have in cgroups. Another word is a policy that we do
// not know.
var policies = map[string]string{
	"max": "throttling", "weight": "io.cost", "cost": "io.cost", "latency": "io.latency", "prio": "io.prio", "bfq": "bfq", "kyber": scheduler,
	"stat": "", "pressure": "", // of no policy
}

// policySlots is BLKCG_MAX_POLS of every kernel from 5.0 on.
const policySlots = 6

func (m *examination) slots() []Check {
	const name = "policy slots"
	if m.noCgroups != nil {
		return nil
	}
	var taken []string
	seen := false
	for _, group := range m.Groups {
		entries, _ := os.ReadDir(m.Tree.Path(group)) // one that is gone has no files
		for _, entry := range entries {
			word, io := strings.CutPrefix(entry.Name(), "io.")
			if !io || entry.IsDir() { // a cgroup may be called so
				continue
			}
			word, _, _ = strings.Cut(word, ".")
			policy, known := policies[word]
			if !known {
				policy = word
			}
			if seen = true; policy != "" && !slices.Contains(taken, policy) {
				taken = append(taken, policy)
			}
		}
	}
	if !seen {
		return warning(name, "no cgroup has the io controller, so doctor cannot see how many of the kernel's six are taken", "as for the io controller")
	}
	finding := fmt.Sprintf("%d of the kernel's %d are taken: %s", len(taken), policySlots, strings.Join(taken, ", "))
	if len(taken) == 0 {
		finding = fmt.Sprintf("none of the kernel's %d is taken", policySlots)
	}
	if len(taken) == policySlots && !slices.Contains(taken, scheduler) {
		return fails(name, finding, "unload one: modprobe -r bfq")
	}
	return ok(name, "%s", finding)
}

// takers are disks that can have a scheduler.
func (m *examination) takers() []Check {
	const name = "disks"
	var names, shared []string
	for _, d := range m.disks {
		if d.Unfit() == "" && !d.Zoned {
			names = append(names, d.Name)
		}
		if d.Scheduler == scheduler {
			shared = append(shared, d.Name)
		}
	}
	switch {
	case len(shared) > 0:
		return append(ok(name, "%s on %s", scheduler, strings.Join(shared, ", ")), m.unshared(names)...)
	case len(names) == 0:
		return fails(name, "none takes a scheduler", "use a disk whose driver has blk-mq queues, or a RAM disk: modprobe null_blk")
	}
	return ok(name, "can have %s: %s; isolio enable %s", scheduler, strings.Join(names, ", "), shell.Quote(names[0]))
}

// unshared tells of those of some disks that something is mounted from and no weight acts on, beside disks that share.
func (m *examination) unshared(fit []string) (checks []Check) {
	mounts, err := m.sys.Mounts()
	iocost, err2 := m.Tree.IOCost()
	if err != nil || err2 != nil {
		return nil // "cgroup v2" tells
	}
	var seen []string
	for _, mount := range mounts {
		if mount.Type == "overlay" || slices.Contains(seen, mount.MajMin) {
			continue // of hundreds, each lies on a mount that is looked at
		}
		seen = append(seen, mount.MajMin)
		for _, disk := range m.sys.Beneath(mount) {
			at := slices.IndexFunc(m.disks, func(d block.Info) bool { return d.Name == disk })
			if slices.Contains(seen, disk) || !slices.Contains(fit, disk) || len(weight.Acting(m.disks[at].Scheduler, iocost[m.disks[at].MajMin])) > 0 {
				continue
			}
			seen = append(seen, disk)
			checks = append(checks, warning("disks", fmt.Sprintf("%s is on %s, where no weight acts", mount.Point, disk), "isolio enable "+shell.Quote(disk))...)
		}
	}
	return checks
}

// systemd tells whether weights of units last.
func (m *examination) systemd() []Check {
	const name = "systemd"
	if _, there := target.SystemdOn(m.sys.Root); there {
		return ok(name, "runs: isolio has it keep the weights of units")
	}
	return warning(name, "does not run: a weight lasts as long as its cgroup", "none is needed where nothing restarts")
}

// classOfTree tells of processes of a tree, which has none but in tests.
var classOfTree func(pid int) block.IOClass

// classes tells of processes with an I/O class, which orders a cgroup's own requests only.
func (m *examination) classes() []Check {
	shared := slices.ContainsFunc(m.disks, func(d block.Info) bool { return d.Scheduler == scheduler })
	classOf := block.IOClassOf
	if m.sys.Root != "" {
		classOf = classOfTree
	}
	if m.noCgroups != nil || classOf == nil || !shared {
		return nil
	}
	const name = "I/O classes"
	n, first := 0, ""
	for _, group := range m.Groups {
		for word := range strings.FieldsSeq(m.read(m.shown(m.Tree.Path(group, "cgroup.procs")))) {
			pid, err := strconv.Atoi(word)
			if class := classOf(pid); err == nil && class != "" {
				if n++; first == "" {
					first = fmt.Sprintf("%s of %d (%s) in %s", class, pid, printable.Text(m.read("proc/"+word+"/comm")), m.Of(group).Word())
				}
			}
		}
	}
	if n == 0 {
		return ok(name, "no process has one")
	}
	return warning(name, fmt.Sprintf("%d processes have one, which counts within their cgroups only, such as %s", n, first),
		"against other cgroups, a cgroup of its own with a small weight: systemd-run --scope -p IOWeight=1 COMMAND in place of ionice -c3 COMMAND")
}

// daemonGroup is the cgroup of the daemon's service.
const daemonGroup = "system.slice/isolio.service"

// daemon tells whether what is asked of runtimes and systemd gets through.
func (m *examination) daemon() []Check {
	const name = "daemon"
	if m.noCgroups != nil {
		return nil
	}
	// It may run in a container or by hand; its lock is root's to ask for.
	if held, _ := state.Locked(m.sys.Root, state.DaemonLock); held || slices.Contains(m.Groups, daemonGroup) {
		return ok(name, "runs: it translates --blkio-weight and IOWeight= for %s", scheduler)
	}
	return warning(name, "does not run: --blkio-weight and IOWeight= have no effect with "+scheduler, startDaemon(m.sys))
}

// startDaemon is how the daemon is started here.
func startDaemon(sys block.System) string {
	if _, systemd := target.SystemdOn(sys.Root); systemd {
		for _, dir := range []string{"etc", "usr/lib", "usr/local/lib"} {
			if _, err := os.Stat(sys.Path(dir, "systemd/system/isolio.service")); err == nil {
				return "systemctl enable --now isolio"
			}
		}
	}
	return "run `isolio daemon`"
}

// weightRules tells whether a daemon takes /etc/isolio.toml: with a mistake in it
// none starts.
func (m *examination) weightRules() []Check {
	const name = "weight rules"
	config, err := m.Rules, m.BadRules
	if errors.Is(err, fs.ErrPermission) {
		return warning(name, rule.File+" cannot be read without root", "sudo isolio doctor")
	}
	if err != nil {
		return warning(name, strings.ReplaceAll(err.Error(), m.sys.Path("etc/isolio."), "/etc/isolio."), "correct the file, then systemctl restart isolio; until then a running daemon keeps its rules, and a new one does not start")
	}
	if len(config.Files) == 0 {
		return ok(name, "there is no %s: weights are those that runtimes and systemd were asked for", rule.File)
	}
	var checks []Check
	for _, idle := range config.Idle(m.sys) {
		checks = append(checks, warning(name, idle.Finding, cmp.Or(idle.Remedy, "name a disk that exists, or connect this one"))...)
	}
	for _, blind := range config.Blind(m.Containers) {
		checks = append(checks, warning(name, blind, "match by annotation: podman run --annotation KEY=VALUE, and annotation = \"KEY=VALUE\" in the rule; isolio.toml(5) has containerd's way")...)
	}
	if len(checks) > 0 {
		return checks
	}
	if one := config.Files[0]; len(config.Files) == 1 {
		return ok(name, "rules in %s: %d", one.Name, one.Rules)
	}
	return ok(name, "rules in %s and %s: %d, in %d files", rule.File, rule.Dir(rule.File), len(config.Rules), len(config.Files))
}
