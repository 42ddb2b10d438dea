// SPDX-License-Identifier: MIT

// Package demo shows a noisy neighbour on a host, on a model disk in memory: no disk of the
// host is touched, and what was made is taken away.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"isolio/internal/failure"
	"isolio/internal/host/cgroup"
	"isolio/internal/host/profile"
	"isolio/internal/kmod"
	"isolio/internal/table"
)

// Disk is the model disk's name, and that of the cgroup with its two containers.
const Disk = "isolio-demo"

// models is where model disks are made.
const models = "/sys/kernel/config/modeldisk"

// Options are what the user chose.
type Options struct {
	Out     io.Writer
	Time    time.Duration // of each round
	Modules string        // a directory of modules, in place of the installed ones
	Program string        // isolio
}

// tenant is one of the two: what it sends, and what it is to have.
type tenant struct {
	name   string
	depth  int
	weight int
}

var tenants = []tenant{{"web", 4, 800}, {"batch", 128, 200}}

// Load is what a tenant did.
type Load struct {
	Requests uint64        `json:"requests"`
	P99      time.Duration `json:"p99_ns"`
}

// demo is one run.
type demo struct {
	Options
	tree cgroup.Tree
	undo []func() error
}

// Run shows all rounds, and cleans up whatever comes.
func Run(ctx context.Context, o Options) (err error) {
	d := &demo{Options: o}
	if os.Geteuid() != 0 {
		return failure.Unsupportedf("demo: makes a model disk and cgroups, which needs root: sudo isolio demo; it touches no disk of this host")
	}
	if d.tree, err = cgroup.Find(""); err != nil {
		return err
	}
	if err := d.tree.Check(); err != nil {
		return err
	}
	defer func() {
		d.say("\nEverything is taken away again: the disk, the cgroups, the modules that were loaded for it.")
		for i := len(d.undo) - 1; i >= 0; i-- {
			err = errors.Join(err, d.undo[i]())
		}
	}()
	if err := d.makeDisk(ctx); err != nil {
		return err
	}
	if err := d.makeGroups(); err != nil {
		return err
	}
	return d.rounds(ctx)
}

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.Out, format+"\n", args...) }

// makeDisk makes the model of an NVMe SSD, slowed down so that a CPU can drive it.
func (d *demo) makeDisk(ctx context.Context) error {
	if _, err := os.Stat(models); errors.Is(err, fs.ErrNotExist) {
		if err := d.loadModel(ctx); err != nil {
			return err
		}
	}
	dir := filepath.Join(models, Disk)
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		return failure.Unsupportedf("demo: there is a model disk %s already: another demo runs, or was killed; remedy: echo 0 > %s/power; rmdir %s", Disk, dir, dir)
	} else if err != nil {
		return fmt.Errorf("demo: model disk: %w", err)
	}
	d.undo = append(d.undo, func() error {
		_ = os.WriteFile(dir+"/power", []byte("0"), 0o644) // it may be off
		return os.Remove(dir)
	})
	for _, set := range [][2]string{{"model", "nvme"}, {"preset", "p4500-2tb"}, {"scale", "64"}, {"queues", "1"}, {"tags", "1023"}, {"power", "1"}} {
		if err := os.WriteFile(filepath.Join(dir, set[0]), []byte(set[1]), 0o644); err != nil {
			return fmt.Errorf("demo: model disk: %w", err)
		}
	}
	if err := os.WriteFile("/sys/block/"+Disk+"/queue/scheduler", []byte("none"), 0o644); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d.say("A model of an NVMe SSD is there as /dev/%s, 64 times as slow as the product. It has no data, and no disk of this host is touched.", Disk)
	return nil
}

func (d *demo) loadModel(ctx context.Context) error {
	if d.Modules != "" {
		if err := kmod.Insert(filepath.Join(d.Modules, "modeldisk.ko"), ""); err != nil {
			return err
		}
	} else if said, err := exec.CommandContext(ctx, "modprobe", "modeldisk").CombinedOutput(); err != nil {
		return failure.Unsupportedf("demo: modprobe modeldisk: %s; isolio doctor says what is missing", strings.TrimSpace(string(said)))
	}
	d.undo = append(d.undo, func() error { return kmod.Unload("modeldisk") })
	return nil
}

// makeGroups makes a cgroup for each tenant.
func (d *demo) makeGroups() error {
	passes, err := d.tree.Passes("")
	if err != nil {
		return err
	}
	if !passes {
		if err := d.control("", "+io"); err != nil {
			return err
		}
		d.undo = append(d.undo, func() error { return d.control("", "-io") })
	}
	for _, group := range []string{Disk, Disk + "/web", Disk + "/batch"} {
		dir := d.tree.Path(group)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		d.undo = append(d.undo, func() error { return os.Remove(dir) })
		if group == Disk {
			if err := d.control(Disk, "+io"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *demo) control(group, controller string) error {
	if err := os.WriteFile(d.tree.Path(group, "cgroup.subtree_control"), []byte(controller), 0o644); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// command runs a command of isolio's to its end, and shows it. Ctrl-C does not reach it: an enable
// that stopped in the middle would leave a module, and nothing to disable.
func (d *demo) command(ctx context.Context, args ...string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d.say("\n    $ isolio %s", strings.Join(args, " "))
	if args[0] == "enable" && d.Modules != "" {
		args = append(args, "--module", filepath.Join(d.Modules, "kyber-fairness-iosched.ko"))
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), d.Program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(said)) {
		d.say("    %s", strings.TrimRight(line, "\n"))
	}
	if err != nil {
		return fmt.Errorf("demo: isolio %s: %w: %s", args[0], err, strings.TrimSpace(string(said)))
	}
	return nil
}

func (d *demo) rounds(ctx context.Context) error {
	d.say("\n1. web is alone. It reads four blocks at a time.")
	alone, err := d.round(ctx, tenants[:1], nil)
	if err != nil {
		return err
	}
	d.say("\n2. batch comes, with 128 reads at a time. The disk has no scheduler.")
	none, err := d.round(ctx, tenants, alone)
	if err != nil {
		return err
	}
	d.say("\n3. isolio shares the disk: web is to have 80 %% of it by weight, batch 20 %%.")
	// Also after a signal, which ends ctx.
	d.undo = append(d.undo, func() error { return d.command(context.WithoutCancel(ctx), "disable", Disk) })
	if err := d.command(ctx, "enable", Disk); err != nil {
		d.undo = d.undo[:len(d.undo)-1]
		return err
	}
	for _, t := range tenants {
		if err := d.command(ctx, "weight", Disk+"/"+t.name, fmt.Sprint(t.weight)); err != nil {
			return err
		}
	}
	shared, err := d.round(ctx, tenants, alone)
	if err != nil {
		return err
	}
	d.say("\nweb had %.0f %% of its rate alone beside batch, and has %.0f %% with isolio.",
		100*ratio(none[0].Requests, alone[0].Requests), 100*ratio(shared[0].Requests, alone[0].Requests))
	d.say("Both together had %.0f %% of what they had without: that is the price, where one of them sends few requests.",
		100*ratio(shared[0].Requests+shared[1].Requests, none[0].Requests+none[1].Requests))
	return nil
}

func ratio(a, b uint64) float64 { return float64(a) / float64(max(b, 1)) }

// round has tenants send for a while, and shows what they had.
func (d *demo) round(ctx context.Context, of []tenant, alone []Load) ([]Load, error) {
	type ended struct {
		i    int
		load Load
		err  error
	}
	done := make(chan ended, len(of))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for i, t := range of {
		go func() {
			load, err := d.send(ctx, t)
			done <- ended{i, load, err}
		}()
	}
	loads := make([]Load, len(of))
	var failed error
	for range of {
		e := <-done
		if e.err != nil && failed == nil {
			failed = e.err
			stop()
		}
		loads[e.i] = e.load
	}
	if failed != nil {
		return nil, failed
	}
	rows := make([][]string, len(of))
	for i, t := range of {
		against := "100 %"
		if alone != nil {
			against = "-"
			if i == 0 {
				against = fmt.Sprintf("%.0f %%", 100*ratio(loads[i].Requests, alone[i].Requests))
			}
		}
		rows[i] = []string{t.name, fmt.Sprintf("%.0f", float64(loads[i].Requests)/d.Time.Seconds()), against, fmt.Sprintf("%.1f", loads[i].P99.Seconds()*1e3)}
	}
	d.say("")
	return loads, table.Write(d.Out, []table.Column{
		{Head: "container"}, {Head: "reads/s", Right: true}, {Head: "of its rate alone", Right: true}, {Head: "p99, ms", Right: true},
	}, rows)
}

// send starts this program in the tenant's cgroup, as its load.
func (d *demo) send(ctx context.Context, t tenant) (load Load, err error) {
	group, err := os.Open(d.tree.Path(Disk, t.name))
	if err != nil {
		return load, fmt.Errorf("demo: %w", err)
	}
	defer group.Close()
	cmd := exec.CommandContext(ctx, d.Program, "demo", "--load", fmt.Sprint(t.depth), "--time", d.Time.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd()), Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = d.Out
	said, err := cmd.Output()
	if err != nil {
		return load, fmt.Errorf("demo: load of %s: %w", t.name, err)
	}
	if err := json.Unmarshal(said, &load); err != nil {
		return load, fmt.Errorf("demo: load of %s: %w", t.name, err)
	}
	return load, nil
}

// Send keeps so many reads outstanding on the model disk, and writes what came of them.
func Send(ctx context.Context, w io.Writer, depth int, over time.Duration) error {
	device, err := os.OpenFile("/dev/"+Disk, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer device.Close()
	job := profile.Job{Bytes: 256 << 20, Block: 4096, Depth: depth, ReadPct: 100, Random: true, Seed: 1}
	const parts = 5 // of which the first is left out: the disk is not as full yet
	windows, err := profile.RunJob(ctx, device, job, over/(parts-1), func(all []profile.Window) bool { return len(all) >= parts })
	if err != nil {
		return err
	}
	var all profile.Histogram
	for _, window := range windows[1:parts] {
		all.Merge(&window.Latency[profile.ReadIO])
	}
	return json.NewEncoder(w).Encode(Load{all.N(), all.Percentile(99)})
}
