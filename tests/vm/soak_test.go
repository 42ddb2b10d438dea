// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// soakVariable is how many seconds the programs run; without it the test is left out.
const soakVariable = "ISOLIO_SOAK"

// soakProbeOf is the variable that has this program read a disk until a file is gone: "DISK FILE".
const soakProbeOf = "ISOLIO_SOAK_PROBE"

const (
	soakSwitch = 20 * time.Second // between two schedulers
	soakBound  = 11 * time.Second // the most that a request is throttled, and a second for the disk
	soakEnds   = 2 * time.Minute  // for a program to end, and for its check
	nobodyID   = 65534
)

// soakPrograms are what runs together: shell scripts, each in a directory and a cgroup of its
// own, until the file "run" is gone. What check finds wrong, it says with its exit status.
var soakPrograms = []struct {
	name               string
	weight             int
	memory             string // memory.max
	setup, load, check string
}{
	{
		name: "postgresql", weight: 800,
		setup: `initdb --no-locale -E UTF8 -A trust -U postgres -D data > /dev/null
pg_ctl -D data -w -l server.log -o "-k $PWD -c listen_addresses= -c shared_buffers=16MB -c max_wal_size=64MB" start > /dev/null
pgbench -h $PWD -U postgres -i -q -s 2 postgres 2> /dev/null`,
		load:  `while [ -e run ]; do pgbench -h $PWD -U postgres -n -c 4 -j 1 -T 5 postgres > /dev/null; done`,
		check: `pg_amcheck -h $PWD -U postgres --install-missing --heapallindexed postgres; pg_ctl -D data -m fast stop > /dev/null`,
	},
	{
		name: "sqlite", weight: 400,
		setup: `sqlite3 a.db 'PRAGMA journal_mode = wal; CREATE TABLE t (id INTEGER PRIMARY KEY, x); CREATE INDEX i ON t (x)' > /dev/null`,
		load: `while [ -e run ]; do
echo "INSERT INTO t (x) VALUES (hex(randomblob(500))); DELETE FROM t WHERE id < (SELECT max(id) FROM t) - 2000;"
done | sqlite3 a.db`,
		check: `[ "$(sqlite3 a.db 'PRAGMA integrity_check')" = ok ]; [ $(sqlite3 a.db 'SELECT count(*) > 0 FROM t') = 1 ]`,
	},
	{
		name: "rocksdb", weight: 200,
		setup: `db_bench --benchmarks=fillseq --db=db --num=20000 --value_size=400 --compression_type=none > /dev/null 2>&1`,
		load: `while [ -e run ]; do db_bench --benchmarks=overwrite --use_existing_db=true --db=db --num=20000 --value_size=400 --duration=5 --compression_type=none \
	--write_buffer_size=1048576 --target_file_size_base=1048576 --max_bytes_for_level_base=4194304 > /dev/null 2>&1; done`,
		check: `db_bench --benchmarks=readseq --use_existing_db=true --db=db --num=20000 --value_size=400 --compression_type=none --verify_checksum=true > read 2>&1
grep -q ^readseq read`,
	},
	{
		name: "walk", weight: 100, memory: "32M",
		setup: `d=0
while [ $d -lt 40 ]; do
	mkdir $d
	f=0
	while [ $f -lt 50 ]; do echo file $f of $d > $d/$f; f=$((f + 1)); done
	d=$((d + 1))
done`,
		load:  `while [ -e run ]; do find . -type f -size +9 > /dev/null; tar -cf - [0-9]* | cat > /dev/null; done`,
		check: `[ $(find . -mindepth 2 -type f | wc -l) = 2000 ]; [ "$(cat 39/49)" = "file 49 of 39" ]`,
	},
	{
		name: "install", weight: 100,
		setup: `mkdir new old
f=0
while [ $f -lt 40 ]; do echo file $f > new/$f; f=$((f + 1)); done
tar -cf package.tar new
mv new old/new`,
		load: `while [ -e run ]; do
	tar -xf package.tar
	find new -type f -exec sync {} +
	mv old older
	mkdir old
	mv new old
	rm -r older
done`,
		check: `[ $(find old -type f | wc -l) = 40 ]; [ "$(cat old/new/39)" = "file 39" ]`,
	},
	{
		name: "logger", weight: 100,
		load:  `n=0; while [ -e run ]; do echo "line $n" >> log; sync log; n=$((n + 1)); done`,
		check: `[ $(grep -c . log) -gt 10 ]; ! grep -qv '^line [0-9]*$' log`,
	},
}

// asNobody has the machine know a user besides root, who may make files in /tmp.
func asNobody(t *testing.T) {
	t.Helper()
	must(t, os.WriteFile("/etc/passwd", []byte("root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n"), 0o644))
	must(t, os.WriteFile("/etc/group", []byte("root:x:0:\nnogroup:x:65534:\n"), 0o644))
	must(t, os.Chmod("/tmp", 0o777|os.ModeSticky))
}

// openToNobody lets that user reach a directory, and make files in it.
func openToNobody(t *testing.T, dir string) {
	t.Helper()
	for ; dir != "/" && dir != "/tmp"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o777))
	}
}

// nobodysScript is a shell in a program's directory and cgroup, and not as root.
func nobodysScript(t *testing.T, group, dir, text string, out *os.File) *exec.Cmd {
	t.Helper()
	cgroup, err := os.Open(group)
	must(t, err)
	defer cgroup.Close()
	cmd := exec.Command("/bin/sh", "-ec", text)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	cmd.Env = append(os.Environ(), "HOME="+dir, "PWD="+dir, "LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		UseCgroupFD: true, CgroupFD: int(cgroup.Fd()), Setpgid: true,
		Credential: &syscall.Credential{Uid: nobodyID, Gid: nobodyID},
	}
	must(t, cmd.Start())
	return cmd
}

// soakEnd waits for a script's end.
func soakEnd(t *testing.T, d *disk, what string, cmd *exec.Cmd, out *os.File) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			said, _ := os.ReadFile(out.Name())
			t.Errorf("%s: %v; it says: %s", what, err, said[max(0, len(said)-1000):])
		}
	case <-time.After(soakEnds):
		d.logState(t)
		t.Fatalf("%s: has not ended after %v", what, soakEnds)
	}
}

// probeSoak reads blocks of a disk at random, one after another, until the file is gone, and
// prints how many there were and what the longest took.
func probeSoak(text string) error {
	disk, file, _ := strings.Cut(text, " ")
	f, err := os.OpenFile(disk, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err != nil {
		return err
	}
	const block = 4096
	buf := aligned(block, 1)
	var longest time.Duration
	for n := 0; ; n++ {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			fmt.Println(n, longest.Microseconds())
			return nil
		}
		began := time.Now()
		if _, err := f.ReadAt(buf, rand.Int64N(size/block)*block); err != nil {
			return err
		}
		longest = max(longest, time.Since(began))
		time.Sleep(20 * time.Millisecond)
	}
}

// All programs run together on one ext4 while the scheduler changes every 20 s. Afterwards their
// data are right, the file system is clean, and no request of a process beside them has waited
// for longer than the scheduler may hold one back.
func TestSoak(t *testing.T) {
	seconds := numberOf(t, soakVariable, 0)
	if seconds == 0 {
		t.Skip("for a long time: make vm T=soak")
	}
	withModelDisk(t)
	for _, name := range []string{"rsd", "sfq"} {
		if !inserted(t, name+"_iosched") {
			must(t, insertModule(name+"-iosched.ko"))
		}
	}
	asNobody(t)
	control := filepath.Join(cgroupRoot, "cgroup.subtree_control")
	write(t, control, "+memory")
	t.Cleanup(func() { write(t, control, "-memory") })
	d := newModelDisk(t, []string{"model=nvme", "preset=p4500-2tb", "scale=64", "tags=1023", "size_mib=768", "memory_backed=1", "write_cache=1"})
	d.use(t, elevator)
	c := &cutDisk{disk: d, fs: fileSystem{kind: "ext4"}, at: filepath.Join(t.TempDir(), "soak")}
	must(t, os.MkdirAll(c.at, 0o755))
	openToNobody(t, c.at)
	c.program(t, []string{"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"})
	must(t, c.mount())
	logs := t.TempDir()
	groups, outs, loads := map[string]string{}, map[string]*os.File{}, map[string]*exec.Cmd{}
	for _, p := range soakPrograms {
		dir := filepath.Join(c.at, p.name)
		must(t, os.Mkdir(dir, 0o755))
		must(t, os.Chown(dir, nobodyID, nobodyID))
		groups[p.name] = newGroup(t, p.name)
		write(t, filepath.Join(groups[p.name], weightFile), fmt.Sprint(p.weight))
		if p.memory != "" {
			write(t, filepath.Join(groups[p.name], "memory.max"), p.memory)
		}
		out, err := os.Create(filepath.Join(logs, p.name))
		must(t, err)
		defer out.Close()
		outs[p.name] = out
		soakEnd(t, d, p.name+": setup", nobodysScript(t, groups[p.name], dir, p.setup, out), out)
		must(t, os.WriteFile(filepath.Join(dir, "run"), nil, 0o644))
	}
	running := filepath.Join(logs, "run")
	must(t, os.WriteFile(running, nil, 0o644))
	var probed bytes.Buffer
	probe := startSelf(t, newGroup(t, "probe"), soakProbeOf+"=/dev/"+d.name+" "+running, &probed)
	for _, p := range soakPrograms {
		loads[p.name] = nobodysScript(t, groups[p.name], filepath.Join(c.at, p.name), p.load, outs[p.name])
	}
	began := time.Now()
	for i := 1; time.Since(began) < time.Duration(seconds)*time.Second; i++ {
		time.Sleep(min(soakSwitch, time.Duration(seconds)*time.Second-time.Since(began)))
		d.use(t, everyScheduler[(i+len(others))%len(everyScheduler)])
	}
	d.use(t, elevator)
	must(t, os.Remove(running))
	must(t, probe.Wait())
	for _, p := range soakPrograms {
		must(t, os.Remove(filepath.Join(c.at, p.name, "run")))
	}
	for _, p := range soakPrograms {
		soakEnd(t, d, p.name, loads[p.name], outs[p.name])
	}
	for _, p := range soakPrograms {
		soakEnd(t, d, p.name+": check", nobodysScript(t, groups[p.name], filepath.Join(c.at, p.name), p.check, outs[p.name]), outs[p.name])
		t.Logf("%s: read %d MiB, wrote %d MiB", p.name, groupKiB(t, groups[p.name], d, true)>>10, groupKiB(t, groups[p.name], d, false)>>10)
	}
	var reads, longest int
	if _, err := fmt.Sscan(probed.String(), &reads, &longest); err != nil || reads == 0 {
		t.Errorf("the probe says %q: %v", probed.String(), err)
	}
	t.Logf("%d reads beside them, the longest took %d ms", reads, longest/1000)
	if most := int(soakBound.Microseconds()); longest > most {
		t.Errorf("a read took %d ms, want %v at most", longest/1000, soakBound)
	}
	must(t, unix.Unmount(c.at, 0))
	if out, err := c.try([]string{"e2fsck", "-f", "-n"}); err != nil {
		t.Errorf("e2fsck: %v\n%s", err, out)
	}
}
