// SPDX-License-Identifier: MIT

// Command run boots a stock kernel in the lab's VM with the compiled guest
// tests of tests/vm as its payload, prints what they print as they print it,
// and fails if a test fails, if no test ran, or if the kernel complained.
//
//	go test -c -tags vm -o build/vm.test ./tests/vm
//	go run ./tests/vm/run --kernel 6.1 [--run REGEXP] [--shuffle SEED] [--cpus N] [--twice | --split | --parallel] [--keep DIR]
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"isolio/internal/kernels"
	"isolio/internal/lab/vm"
)

// cutTime is how long a power cut takes at most, with the checks after it.
const cutTime = 10 * time.Second

// Where the test binary lies in the guest, and the commands, in PATH.
const (
	guestTest   = "/tests/vm.test"
	guestIsolio = "/bin/isolio"
	guestLab    = "/bin/isolio-lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm tests:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	var (
		build   = flags.String("build", "build", "directory with kernel/<line>/ and modules/<line>/")
		line    = flags.String("kernel", kernels.Default(), "kernel `line` to boot")
		initial = flags.String("init", "build/isolio-guest", "the guest's init `program`")
		command = flags.String("isolio", "build/guest/isolio", "the `program` isolio that tests of it run")
		bench   = flags.String("isolio-lab", "build/guest/isolio-lab", "the `program` isolio-lab that tests of it run, if it is there")
		binary  = flags.String("binary", "build/vm.test", "compiled guest tests")
		match   = flags.String("run", "", "run only tests that match the `regexp`")
		shuffle = flags.Int64("shuffle", 0, "run the tests in the order that `seed` gives, 1 or more: all that depends on time comes out a little differently")
		cpus    = flags.Int("cpus", 1, "how many virtual CPUs the machine has, 1 to 64")
		keep    = flags.String("keep", "", "keep initramfs, kernel log and events in `dir`")
		twice   = flags.Bool("twice", false, "boot two VMs side by side; they must tell the same to the last byte")
		split   = flags.Bool("split", false, "boot two VMs side by side, each with half of the tests")
		named   = flags.String("tests", "", "run the tests of these `names`, separated by blanks; each must run, and pass")
		timeout = flags.Duration("timeout", 90*time.Minute, "wall-clock limit: for machines that are slow; one that hangs is found sooner, see --limit")
		cuts    = flags.Int("cuts", 0, "how many power cuts TestPowerCut makes; 0 is one for each scheduler")
		seed    = flags.Int("seed", 1, "of the moments of --cuts")
		carry   = flags.String("carry", "", "take the files in `dir` to the guest, into "+guestCarried)
		disks   = flags.String("disks", "", "give the machine real drivers' disks, `kinds` with commas between or all, and run the tests of those: "+strings.Join(vm.DiskKinds(), ", "))
		more    = flags.String("hardware", "", "give the machine disks of these `kinds` as --disks does, for tests of one's own")
		layered = flags.Bool("stacks", false, "give the machine what LVM, LUKS, RAID and loop files take, for the tests of those")
		data    = flags.String("data", "", "write what the tests measured to `file`, a JSON object a line")
		side    = flags.Bool("parallel", false, "run the CPUs side by side in real time; no two runs are the same")
		limit   = flags.Duration("limit", 0, "how long the tests may take on the guest's clock; 0 stands for 20 minutes")
		work    = flags.Int("work", 0, "the guest's `MiB` of memory besides its files; 0 stands for 448")
		env     = list(flags, "env", "`NAME=VALUE` for the tests; may be given again")
		stock   = list(flags, "stock", "load a stock `module`, with its parameters; may be given again")
		needs   = flags.String("programs", "", "take only these `programs` of the kernel's root along, separated by commas")
		from    = flags.String("from", "", "take the --programs from the tree LINE-`NAME` in place of the kernel's root, such as programs, of `make setup WITH=programs`")
		tree    = flags.String("tree", "", "boot the distribution in `dir`, with the packages of `make deb` unless --carry says what comes along")
	)
	hangs := flags.Bool("hangs", false, "boot VMs whose tests hang on purpose; each must fail for it")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *cpus < 1 || *cpus > 64 {
		return fmt.Errorf("--cpus: %d is out of range; allowed: 1..64", *cpus)
	}
	if *side && *twice {
		return errors.New("--parallel: two VMs with parallel CPUs differ; not together with --twice")
	}
	if *split && (*twice || *match != "") {
		return errors.New("--split: takes each test once; not together with --twice or --run")
	}
	names := strings.Fields(*named)
	if len(names) > 0 {
		if *match != "" {
			return errors.New("--tests: not together with --run")
		}
		*match = exactly(names)
	}
	if *cuts < 0 {
		return fmt.Errorf("--cuts: %d is out of range; allowed: 0 and more", *cuts)
	}
	if *shuffle < 0 {
		return fmt.Errorf("--shuffle: %d is out of range; allowed: 1 and more", *shuffle)
	}
	argv := []string{"-test.v"}
	if *match != "" && !*split {
		argv = append(argv, "-test.run="+*match)
	}
	if *shuffle > 0 {
		argv = append(argv, fmt.Sprint("-test.shuffle=", *shuffle))
	}
	machine, err := guestTests(*build, *line, *binary, *tree != "", argv)
	if err != nil {
		return err
	}
	machine.Init = *initial
	machine.CPUs, machine.Parallel, machine.Keep, machine.Timeout = *cpus, *side, *keep, *timeout
	machine.Payload.Env = append(machine.Payload.Env, *env...)
	machine.Stock = append(machine.Stock, *stock...)
	machine.WorkMiB = cmp.Or(*work, machine.WorkMiB)
	if *needs != "" {
		machine.Programs = strings.Split(*needs, ",")
	}
	if *from != "" {
		if err := takePrograms(&machine, *build, *from); err != nil {
			return fmt.Errorf("--from %s: %w", *from, err)
		}
	}
	if *cuts > 0 {
		machine.Limit += time.Duration(*cuts) * cutTime
		machine.Payload.Argv[1] = fmt.Sprint("-test.timeout=", machine.Limit-time.Minute)
		machine.Payload.Env = append(machine.Payload.Env, fmt.Sprint("ISOLIO_CUTS=", *cuts), fmt.Sprint("ISOLIO_SEED=", *seed))
	}
	if *carry != "" {
		if err := carryFiles(&machine, *carry, guestCarried); err != nil {
			return fmt.Errorf("--carry: %w; `make vm T=containers` makes it", err)
		}
	}
	if *tree == "" {
		machine.Payload.Files[guestIsolio] = *command // a distribution has that of its package
		if exists(*bench) {
			machine.Payload.Files[guestLab] = *bench
		}
	} else {
		packages := filepath.Join(*build, "deb")
		if *carry != "" {
			packages = ""
		}
		if err := bootTree(&machine, *tree, packages); err != nil {
			return fmt.Errorf("--tree: %w; `make vm T=user` and `make vm T=kubernetes` make theirs", err)
		}
		machine.WorkMiB = cmp.Or(*work, machine.WorkMiB)
	}
	if *more != "" {
		machine.Disks, machine.Stall = strings.Split(*more, ","), treeStall // in the host's time
	}
	if *disks != "" {
		if err := addDisks(&machine, *disks); err != nil {
			return fmt.Errorf("--disks: %w", err)
		}
	}
	if *layered {
		if err := addStacks(&machine); err != nil {
			return fmt.Errorf("--stacks: %w", err)
		}
	}
	if *limit > 0 {
		machine.Limit = *limit
		machine.Payload.Argv[1] = fmt.Sprint("-test.timeout=", *limit-time.Minute)
	}
	if *hangs {
		return expectHangs(ctx, machine, out)
	}
	looks := lookingLines[*line]
	if looks.races && machine.Keep == "" {
		machine.Keep = filepath.Join(*build, "races")
	}
	started := time.Now()
	machines, alike := []vm.VM{machine}, ""
	switch {
	case *twice:
		machines = append(machines, beside(machine))
	case *split:
		if machines, err = halves(ctx, machine, *binary, names); err != nil {
			return fmt.Errorf("--split: %w", err)
		}
	}
	told, watches, err := together(ctx, machines, out)
	if log, readErr := os.ReadFile(filepath.Join(machine.Keep, vm.ConsoleFile)); looks.races && readErr == nil {
		showRaces(out, string(log))
	}
	measured := told[0].measured
	switch {
	case *split:
		fmt.Fprint(out, told[1].printed)
		measured += told[1].measured
	case *twice && err == nil && told[0] != told[1]:
		err = errors.New("two VMs with the same contents differ: " + told[0].difference(told[1]))
	case *twice:
		told, alike = told[:1], ", second VM identical"
	}
	if *data != "" {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(*data), 0o755), os.WriteFile(*data, []byte(measured), 0o644))
	}
	if err != nil {
		return err
	}
	passed, err := count(told, machine.Kernel.Release)
	if err != nil {
		return err
	}
	skipped := skippedTests(told)
	for _, name := range names {
		if !slices.ContainsFunc(told, func(t transcript) bool { return strings.Contains(t.printed, "--- PASS: "+name+" ") }) {
			return fmt.Errorf("--tests: %s did not run; kernel %s", name, machine.Kernel.Release)
		}
	}
	fmt.Fprintf(out, "=== kernel %s: %d tests passed, %d left out, kernel log clean%s, %.0f s\n",
		machine.Kernel.Release, passed, len(skipped), alike, time.Since(started).Seconds())
	fmt.Fprintln(out, "=== slowest:", slowest(watches))
	if len(skipped) > 0 {
		fmt.Fprintln(out, "=== left out:", strings.Join(skipped, " "))
	}
	return nil
}

// exactly matches tests of these names.
func exactly(names []string) string { return "^(" + strings.Join(names, "|") + ")$" }

// skippedTests are the tests that left themselves out.
func skippedTests(told []transcript) (names []string) {
	for i := range told {
		for line := range strings.Lines(told[i].printed) {
			if rest, ok := strings.CutPrefix(line, "--- SKIP: "); ok {
				name, _, _ := strings.Cut(rest, " ")
				names = append(names, name)
			}
		}
	}
	return names
}

// list is a flag that may be given again.
func list(flags *flag.FlagSet, name, usage string) *[]string {
	var values []string
	flags.Func(name, usage, func(value string) error {
		values = append(values, value)
		return nil
	})
	return &values
}

// together boots VMs side by side. What the first one's tests print is written to out as
// it comes.
func together(ctx context.Context, machines []vm.VM, out io.Writer) ([]transcript, []stopwatch, error) {
	told, watches, errs := make([]transcript, len(machines)), make([]stopwatch, len(machines)), make([]error, len(machines))
	var running sync.WaitGroup
	for i := range machines {
		running.Go(func() {
			watches[i].out = out
			if i > 0 {
				watches[i].out = io.Discard
			}
			errs[i] = told[i].boot(ctx, machines[i], &watches[i])
		})
	}
	running.Wait()
	return told, watches, errors.Join(errs...)
}

// count is how many tests passed; an error if one did not, or none did.
func count(told []transcript, release string) (passed int, err error) {
	for i := range told {
		t := &told[i]
		if t.code != 0 {
			err = errors.Join(err, fmt.Errorf("guest tests failed (exit status %d); kernel %s", t.code, release))
		}
		if t.passed == 0 {
			err = errors.Join(err, errors.New("no guest test ran"))
		}
		passed += t.passed
	}
	return passed, err
}

// transcript is all that a VM tells: its events with the guest's times, its kernel's
// log, and what of the events its tests printed and measured.
type transcript struct {
	events, log       string
	printed, measured string
	code, passed      int
}

// boot fills it in, as far as it comes.
func (t *transcript) boot(ctx context.Context, machine vm.VM, out io.Writer) error {
	var events, printed, measured strings.Builder
	out = io.MultiWriter(out, &printed)
	res, err := vm.Boot(ctx, machine, func(ev vm.Event) {
		fmt.Fprintf(&events, "%d ms %s %s\n", ev.UptimeMS, ev.Kind, ev.Line)
		switch ev.Kind {
		case vm.EventBoot:
			fmt.Fprintf(out, "=== kernel %s\n", ev.Line)
		case vm.EventData:
			fmt.Fprintf(&measured, "%s\n", ev.Data)
		case vm.EventOutput:
			fmt.Fprintln(out, ev.Line)
			if strings.HasPrefix(ev.Line, "--- PASS: ") {
				t.passed++
			}
		}
	})
	t.events, t.printed, t.measured = events.String(), printed.String(), measured.String()
	if err != nil {
		return err
	}
	t.log, t.code = res.Log, res.Code
	return nil
}

// difference shows the first line in which two transcripts differ.
func (t transcript) difference(other transcript) string {
	a, b := strings.Split(t.log+t.events, "\n"), strings.Split(other.log+other.events, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("%q and %q", a[i], b[i])
		}
	}
	return fmt.Sprintf("one has %d lines, the other %d", len(a), len(b))
}

// guestTests is the VM that runs the test binary with the arguments. One that
// builds the modules itself gets none.
func guestTests(build, line, binary string, builds bool, args []string) (vm.VM, error) {
	kernel, err := vm.OpenKernel(build, line)
	if err != nil {
		return vm.VM{}, err
	}
	if _, err := os.Stat(binary); err != nil {
		return vm.VM{}, fmt.Errorf("%w; `go test -c -tags vm -o %s ./tests/vm` makes it", err, binary)
	}
	modules, err := filepath.Glob(filepath.Join(build, "modules", line, "*.ko"))
	if err != nil {
		return vm.VM{}, err
	}
	if len(modules) == 0 && !builds {
		return vm.VM{}, fmt.Errorf("%s: no module; `make setup KERNEL=%s` builds them", filepath.Join(build, "modules", line), line)
	}
	limit, work := 20*time.Minute, 448 // data integrity tests keep a disk's contents in memory
	stock := []string{"null_blk nr_devices=0", "mq-deadline", "bfq", "kyber-iosched"}
	looks := lookingLines[line]
	var stall time.Duration // 0 stands for vm's own
	if looks.factor > 1 {
		limit, work, stall = limit*time.Duration(looks.factor), work*looks.factor, lookStall
	}
	xfs, err := kernel.Modules("crc32c_generic", "xfs") // ext4 is built in, or XFS as well
	if err != nil {
		return vm.VM{}, err
	}
	stock = append(stock, xfs...)
	scsi, err := kernel.Modules("sd_mod", "scsi_debug")
	if err != nil {
		return vm.VM{}, err
	}
	for _, module := range scsi {
		if module == "scsi_debug" {
			module += " add_host=0 dev_size_mb=16" // a test adds one
		}
		stock = append(stock, module)
	}
	libaps, err := libapsTests(kernel)
	if err != nil {
		return vm.VM{}, err
	}
	argv := append([]string{guestTest, fmt.Sprint("-test.timeout=", limit-time.Minute)}, args...)
	return vm.VM{
		Kernel:   kernel,
		Programs: []string{"fio", "kmod", "sh", "mkfs.ext4", "e2fsck", "mkfs.xfs", "xfs_repair"},
		Built:    libaps,
		Stock:    stock,
		Carry:    modules, // the tests load and unload them
		Payload: vm.Payload{
			Argv:  argv,
			Env:   []string{"PATH=/bin", "HOME=/tmp", "TMPDIR=/tmp"},
			Files: map[string]string{guestTest: binary},
		},
		Args:    looks.args,
		WorkMiB: work,
		Limit:   limit,
		Stall:   stall,
	}, nil
}

// takePrograms has the guest take its programs from a tree of programs, and load btrfs,
// whose programs may be there.
func takePrograms(machine *vm.VM, build, tree string) error {
	if err := machine.Kernel.OpenTree(build, tree); err != nil {
		return err
	}
	modules, err := machine.Kernel.Modules("crc32c_generic", "ext4", "btrfs")
	if err != nil {
		return err
	}
	machine.FromPrograms, machine.Stock = true, append(machine.Stock, modules...)
	return nil
}

// Where the files of --carry lie in the guest, and the packages of --tree.
const (
	guestCarried  = "/tests/containers"
	guestPackages = "/tests/packages"
)

// carryFiles adds the files of a directory.
func carryFiles(machine *vm.VM, dir, guest string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		machine.Payload.Files[path.Join(guest, file.Name())] = filepath.Join(dir, file.Name())
	}
	return nil
}

// A distribution starts many programs, and may compile the modules itself; it has
// all its files in memory. While its kernel unpacks them it shows no sign of life.
const (
	treeLimit   = time.Hour
	treeStall   = 15 * time.Minute
	treeWorkMiB = 2560
)

// bootTree makes it a machine with the distribution in a directory, and with the
// packages, "" for none.
func bootTree(machine *vm.VM, dir, packages string) error {
	release, err := os.ReadFile(filepath.Join(dir, "release"))
	if err != nil {
		return err
	}
	machine.Tree = filepath.Join(dir, "tree.cpio")
	machine.Kernel.Vmlinuz, machine.Kernel.Release = filepath.Join(dir, "vmlinuz"), strings.TrimSpace(string(release))
	machine.Programs, machine.Built, machine.Stock, machine.Carry = nil, nil, nil, nil
	machine.Payload.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "TERM=dumb"}
	machine.Payload.Argv[1] = fmt.Sprint("-test.timeout=", treeLimit-time.Minute)
	machine.Limit, machine.Stall, machine.WorkMiB = treeLimit, treeStall, treeWorkMiB
	if modules := filepath.Join(dir, "modules.tar.gz"); exists(modules) {
		machine.Payload.Files[path.Join(guestPackages, "modules.tar.gz")] = modules
	}
	if packages == "" {
		return nil
	}
	return carryFiles(machine, packages, guestPackages)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// libapsTests are libaps' test programs by their paths in the guest; none where
// they are not built.
func libapsTests(kernel *vm.Kernel) (map[string]string, error) {
	names := []string{"ring-test", "life-test", "fault-plain", "stress-test", "cost", "apsping", "reactor", "go-test"}
	files, err := kernel.Libaps(names...)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	built := map[string]string{}
	for i := range files {
		built["/tests/libaps/"+names[i]] = files[i]
	}
	return built, err
}
