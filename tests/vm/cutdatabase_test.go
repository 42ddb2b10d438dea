// SPDX-License-Identifier: MIT

//go:build vm

package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Databases that commit numbers, 1 and following, each in a transaction of its own.
var cutDatabases = []*database{
	{
		name: "postgresql", weight: 100,
		setup: `initdb -k --wal-segsize=1 --no-locale -E UTF8 -A trust -U postgres -D data > /dev/null`,
		serve: `rm -f data/postmaster.pid
pg_ctl -D data -w -t 100 -l server.log -o "-k $PWD -c listen_addresses= -c shared_buffers=16MB" start > /dev/null`,
		create: `psql -h $PWD -U postgres -q -c "CREATE TABLE t (n integer PRIMARY KEY, x text)" postgres`,
		load: `while :; do echo "INSERT INTO t VALUES ($FROM, repeat(md5('$FROM'), 20)) RETURNING n;"; FROM=$((FROM + 1)); done |
psql -h $PWD -U postgres -qAt -v ON_ERROR_STOP=1 postgres > $ACKS`,
		check: `pg_amcheck -h $PWD -U postgres --install-missing --heapallindexed postgres >&2
psql -h $PWD -U postgres -qAt -F ' ' -c "SELECT count(*) FILTER (WHERE n <= $ACKED), coalesce(max(n), 0),
	count(*) FILTER (WHERE x <> repeat(md5(n::text), 20)) FROM t" postgres`,
	},
	// Without "extra", SQLite does not sync the directory when it has removed its journal: a
	// power cut may take back what was committed last.
	sqliteDatabase("sqlite", 400, "delete", "extra"),
	sqliteDatabase("sqlite wal", 1600, "wal", "full"),
}

func sqliteDatabase(name string, weight int, journal, synchronous string) *database {
	return &database{
		name: name, weight: weight,
		create: fmt.Sprintf(`sqlite3 a.db 'PRAGMA journal_mode = %s; CREATE TABLE t (n INTEGER PRIMARY KEY, x)' > /dev/null`, journal),
		load: `{
	echo "PRAGMA synchronous = ` + synchronous + `;"
	while :; do echo "INSERT INTO t VALUES ($FROM, printf('%0500d', $FROM)); SELECT $FROM;"; FROM=$((FROM + 1)); done
} | sqlite3 -bail a.db > $ACKS`,
		check: `[ "$(sqlite3 a.db 'PRAGMA integrity_check')" = ok ]
sqlite3 -separator ' ' a.db "SELECT count(*) FILTER (WHERE n <= $ACKED), coalesce(max(n), 0),
	count(*) FILTER (WHERE x IS NOT printf('%0500d', n)) FROM t"`,
	}
}

// database is one on a disk that loses its power: shell scripts in a directory and a cgroup of
// their own, and not as root.
type database struct {
	name   string
	weight int
	setup  string // once
	serve  string // starts the server, if there is one, which recovers the data
	create string // the table, once
	// load commits the numbers from $FROM on, and has each in the file $ACKS when that is done.
	load string
	// check fails where the database finds itself inconsistent. It prints how many of the
	// numbers 1 to $ACKED there are, the largest number, and how many rows are wrong.
	check string
}

// databaseProcess is a database on a disk.
type databaseProcess struct {
	*database
	dir, group  string
	acks        string   // the file of what is committed, in memory
	out         *os.File // what its scripts say
	load        *exec.Cmd
	acked, most int // the last that was committed before the cut; of all in the table
	latest      int // acknowledged when it was killed: the power goes a moment after acked is read
}

func (p *databaseProcess) failure(err error) error {
	said, _ := os.ReadFile(p.out.Name())
	return fmt.Errorf("%s: %w; it says: %s", p.name, err, said[max(0, len(said)-1000):])
}

// script runs one of its scripts with these variables, and returns what it prints.
func (p *databaseProcess) script(t *testing.T, text, variables string) (string, error) {
	t.Helper()
	printed, err := os.Create(p.out.Name() + ".printed")
	must(t, err)
	defer printed.Close()
	cmd := nobodysScript(t, p.group, p.dir, "exec 2>> "+p.out.Name()+"\n"+variables+"\n"+text, printed)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-time.After(soakEnds):
		t.Fatalf("%s: has not ended after %v: %s", p.name, soakEnds, text)
	}
	if err != nil {
		return "", p.failure(err)
	}
	return read(t, printed.Name()), nil
}

// begin starts the load behind the largest number.
func (p *databaseProcess) begin(t *testing.T) {
	t.Helper()
	must(t, os.WriteFile(p.acks, nil, 0o644))
	must(t, os.Chmod(p.acks, 0o666))
	p.load = nobodysScript(t, p.group, p.dir, fmt.Sprintf("FROM=%d ACKS=%s\n%s", p.most+1, p.acks, p.database.load), p.out)
}

// committed is the last number that the database has acknowledged.
func (p *databaseProcess) committed(t *testing.T) int {
	t.Helper()
	lines := strings.Split(read(t, p.acks), "\n")
	if len(lines) < 2 { // the last one has no end
		return p.most
	}
	n, err := strconv.Atoi(lines[len(lines)-2])
	must(t, err)
	return n
}

// end kills all that runs of it.
func (p *databaseProcess) end(t *testing.T) {
	t.Helper()
	write(t, filepath.Join(p.group, "cgroup.kill"), "1")
	_ = p.load.Wait()
	for began := time.Now(); !strings.Contains(read(t, filepath.Join(p.group, "cgroup.events")), "populated 0"); time.Sleep(time.Millisecond) {
		if time.Since(began) > cutLimit {
			t.Fatalf("%s: still runs %v after it was killed", p.name, cutLimit)
		}
	}
}

// recovers starts the database again and says what is wrong with its data.
func (p *databaseProcess) recovers(t *testing.T) error {
	t.Helper()
	if _, err := os.Stat(p.dir); err != nil {
		return err
	}
	if p.serve != "" {
		if _, err := p.script(t, p.serve, ""); err != nil {
			return err
		}
	}
	text, err := p.script(t, p.check, fmt.Sprint("ACKED=", p.acked))
	if err != nil {
		return err
	}
	var have, wrong int
	if _, err := fmt.Sscan(text, &have, &p.most, &wrong); err != nil {
		return p.failure(fmt.Errorf("prints %q: %w", text, err))
	}
	// One client: at most one number was committed and not yet acknowledged.
	if have != p.acked || p.most > p.latest+1 || wrong != 0 {
		return fmt.Errorf("%s: %d were committed before the cut, %d until it was killed: %d of the first are there, the largest number is %d, %d rows are wrong",
			p.name, p.acked, p.latest, have, p.most, wrong)
	}
	return nil
}

// makeDatabases makes a database of each kind on the disk, which is mounted then.
func (c *cutDisk) makeDatabases(t *testing.T, kinds []*database) []*databaseProcess {
	t.Helper()
	openToNobody(t, c.at)
	must(t, c.mount())
	t.Cleanup(func() { _ = unix.Unmount(c.at, unix.MNT_DETACH) }) // where the test has not
	must(t, os.Chmod(c.at, 0o777))
	logs := t.TempDir()
	openToNobody(t, logs)
	var all []*databaseProcess
	for _, kind := range kinds {
		file := strings.ReplaceAll(kind.name, " ", "-")
		p := &databaseProcess{database: kind, dir: filepath.Join(c.at, file), group: newGroup(t, file), acks: filepath.Join(logs, file+".acks")}
		if weight := filepath.Join(p.group, weightFile); exists(weight) {
			write(t, weight, fmt.Sprint(kind.weight))
		}
		out, err := os.Create(filepath.Join(logs, file))
		must(t, err)
		t.Cleanup(func() { must(t, out.Close()) })
		must(t, out.Chmod(0o666))
		p.out = out
		must(t, os.Mkdir(p.dir, 0o755))
		must(t, os.Chown(p.dir, nobodyID, nobodyID))
		for _, text := range []string{kind.setup, kind.serve, kind.create} {
			if _, err := p.script(t, text, ""); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, p)
	}
	unix.Sync() // the table is there, whatever number comes
	return all
}

// cutBeneath has the databases commit, cuts the power, and brings it and them back. It returns
// what is wrong with the data then.
func (c *cutDisk) cutBeneath(t *testing.T, databases []*databaseProcess) (wrong []error) {
	t.Helper()
	c.figures.cuts++
	for _, p := range databases {
		p.begin(t)
	}
	for _, p := range databases {
		for began := time.Now(); p.committed(t) == p.most; time.Sleep(time.Millisecond) {
			if time.Since(began) > cutLimit {
				c.logState(t)
				t.Fatal(p.failure(fmt.Errorf("nothing was committed in %v", cutLimit)))
			}
		}
	}
	time.Sleep(time.Duration(c.rng.IntN(300_000)) * time.Microsecond)
	var each []string
	for _, p := range databases {
		p.acked = p.committed(t)
		c.figures.acked += p.acked - p.most
		each = append(each, fmt.Sprintf("%s %d", p.name, p.acked-p.most))
	}
	t.Logf("cut %d, committed: %s", c.figures.cuts, strings.Join(each, ", "))
	write(t, filepath.Join(c.config, "power_cut"), fmt.Sprint(1+c.rng.Uint64()>>1))
	for _, p := range databases {
		p.end(t)
		p.latest = p.committed(t)
	}
	must(t, unix.Unmount(c.at, 0))
	write(t, filepath.Join(c.config, "power_cut"), "0")
	// The file system's own journal first.
	if err := c.mount(); err != nil {
		return []error{err}
	}
	must(t, unix.Unmount(c.at, 0))
	if out, err := c.try(c.fs.check); err != nil {
		c.figures.unclean++
		wrong = append(wrong, fmt.Errorf("%s: %w\n%s", c.fs.check[0], err, out))
	}
	if err := c.mount(); err != nil {
		return append(wrong, err)
	}
	for _, p := range databases {
		if err := p.recovers(t); err != nil {
			c.figures.lost++
			wrong = append(wrong, err)
		}
	}
	return wrong
}

// What a database has committed is there after a power cut, and the database finds itself
// consistent, under every scheduler.
func TestPowerCutDatabases(t *testing.T) {
	needDatabases(t)
	cuts, seed := max(1, numberOf(t, cutsVariable, 0)/len(everyScheduler)/len(fileSystems)), numberOf(t, seedVariable, 1)
	var total cutFigures
	for at, fs := range fileSystems {
		for i, scheduler := range everyScheduler {
			t.Run(fs.kind+" "+scheduler, func(t *testing.T) {
				needFileSystem(t, fs.kind)
				withGuard(t)
				fs.sizeMiB = 384
				c := newCutDisk(t, fs, scheduler, seed*1000+100+at*len(everyScheduler)+i)
				databases := c.makeDatabases(t, cutDatabases)
				for range cuts {
					for _, err := range c.cutBeneath(t, databases) {
						t.Errorf("cut %d: %v", c.figures.cuts, err)
					}
					if t.Failed() {
						break
					}
				}
				for _, p := range databases {
					p.end(t)
				}
				must(t, unix.Unmount(c.at, 0))
				c.tell(t)
				c.figures.send(t, cutsFound{Filesystem: fs.kind, Scheduler: scheduler, Databases: true, Seed: seed})
				total.add(c.figures)
			})
		}
	}
	t.Logf("all: %d cuts, %d committed, %d lost, %d unclean", total.cuts, total.acked, total.lost, total.unclean)
}

// The check of the check: where the disk is sent no flush, a database loses what it has committed.
func TestPowerCutDatabasesWithoutBarriers(t *testing.T) {
	needDatabases(t)
	const cuts = 4
	seed := numberOf(t, seedVariable, 1)
	var total cutFigures
	for cut := range cuts {
		scheduler := everyScheduler[cut%len(everyScheduler)]
		t.Run(scheduler, func(t *testing.T) {
			withGuard(t)
			fs := fileSystems[0]
			fs.sizeMiB = 384
			c := newCutDisk(t, fs, scheduler, seed*1000+200+cut)
			write(t, c.queue("write_cache"), "write through")
			databases := c.makeDatabases(t, cutDatabases[1:]) // PostgreSQL's start may take long without its data
			if wrong := c.cutBeneath(t, databases); len(wrong) > 0 {
				total.lost++
				t.Log(errors.Join(wrong...))
			}
			total.cuts, total.acked = total.cuts+1, total.acked+c.figures.acked
			for _, p := range databases {
				p.end(t)
			}
		})
	}
	t.Logf("%d of %d cuts lost some of %d commits", total.lost, total.cuts, total.acked)
	total.send(t, cutsFound{Filesystem: fileSystems[0].kind, NoFlushes: true, Databases: true, Seed: seed})
	if total.lost == 0 {
		t.Error("nothing that was committed was lost")
	}
}

// needDatabases skips the test where the machine has no databases.
func needDatabases(t *testing.T) {
	t.Helper()
	for _, program := range []string{"initdb", "sqlite3"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s: make vm T=powercut", program)
		}
	}
	asNobody(t)
}
