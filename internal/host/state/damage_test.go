// SPDX-License-Identifier: MIT

package state

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"isolio/internal/host/cgroup"
	"isolio/internal/host/weight"
	"isolio/internal/must"
)

// keeper is one kind of file of this package, in a machine with the cgroup a.
type keeper struct {
	name, file string
	write      func(root string, n int) error // keeps something that depends on n
	read       func(root string) (any, error)
	// older is what a version before checksums wrote for n = 1, newer what a later one may write.
	older, newer string
}

var keepers = []keeper{
	{
		"marks", "run/isolio/marks/*.json",
		func(root string, n int) error {
			return marksOf(root).Set("a", Applied{"default": {Weight: weight.Value(700 + n), Before: 100}})
		},
		func(root string) (any, error) { return marksOf(root).Get("a") },
		`{"cgroup":"a","weights":{"default":{"weight":701,"before":100}}}`, `{"schema":2,"cgroup":"a","weights":{}}`,
	},
	{
		"raised weights", boostsFile,
		func(root string, n int) error {
			return SaveBoosts(root, []Boost{{Cgroup: "a", Disk: "8:0", Promise: "unit a", Factor: 1 + float64(n)/2, Max: 4, Cause: "disk", Since: time.Unix(1e9, 0).UTC()}})
		},
		func(root string) (any, error) { return LoadBoosts(root) },
		`{"schema":1,"weights":[{"cgroup":"a","disk":"8:0","promise":"unit a","factor":1.5,"most":4,"cause":"disk","since":"2001-09-09T01:46:40Z"}]}`, `{"schema":2,"weights":[]}`,
	},
	{
		"claims", ClaimsFile,
		func(root string, n int) error {
			b := Claims{}
			for i := range 3 {
				b.Set(PodClaims{UID: fmt.Sprint(i), Namespace: "shop", Name: "web", Default: 50, Why: "namespace shop: 50", Shares: []ClaimedShare{{Claim: "c", ClaimUID: "u", Device: "d", Disk: "sda", MajMin: "8:0", Share: 100 + n, Claimed: 300 + n}}})
			}
			return b.Write(root)
		},
		func(root string) (any, error) { return ReadClaims(root) },
		"{\n\t\"schema\": 1,\n\t\"pods\": []\n}\n", `{"schema":2,"pods":[]}`,
	},
	{
		"pods", PodReportFile,
		func(root string, n int) error {
			return PodReport{Engine: "containerd", Pods: []ReportedPod{{ID: "1", UID: "u", Namespace: "shop", Name: fmt.Sprint("web-", n), Annotations: map[string]string{"isolio.dev/weight": "300"}, Containers: []ReportedContainer{{ID: "2", Name: "db"}}}}}.Write(root)
		},
		func(root string) (any, error) { r, _, err := ReadPodReport(root); return r, err },
		`{"engine":"containerd","pods":null}`, `{"schema":2,"engine":"containerd","pods":null}`,
	},
	{
		"pod sight", podSightFile,
		func(root string, n int) error { return PodSight{ByRules: map[string]int{"8:0": 100 + n}}.Write(root) },
		func(root string) (any, error) {
			s := ReadPodSight(root)
			if s.Unseen != "" {
				return PodSight{}, fmt.Errorf("%s", s.Unseen)
			}
			return s, nil
		},
		`{"schema":1,"unseen":""}`, `{"schema":2,"unseen":""}`,
	},
	{
		"disks without a scheduler", "run/isolio/enable/all.json",
		func(root string, n int) error {
			return WriteEnableErrors(filepath.Join(root, "run/isolio/enable/all.json"), []EnableError{{Device: fmt.Sprint("sd", n), Why: "no module"}})
		},
		func(root string) (any, error) {
			return ReadEnableErrors(filepath.Join(root, "run/isolio/enable/all.json"))
		},
		`{"schema":1,"disks":[{"device":"sd1","why":"no module"}]}`, `{"schema":2,"disks":[]}`,
	},
}

func marksOf(root string) *AppliedStore {
	return OpenApplied(root, cgroup.Tree{Root: filepath.Join(root, "sys/fs/cgroup")})
}

// kept is a machine whose daemon runs, with one file of a kind, and what it is.
func (k keeper) kept(t *testing.T, n int) (root, file string, value any) {
	t.Helper()
	root = t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(root, "sys/fs/cgroup/a"), 0o755))
	release, err := Lock(t.Context(), root, DaemonLock, 0)
	must.OK(t, err)
	t.Cleanup(release)
	must.OK(t, k.write(root, n))
	value, err = k.read(root)
	must.OK(t, err)
	files, err := filepath.Glob(filepath.Join(root, k.file))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	return root, files[0], value
}

// A file that is cut anywhere, or has any of its bits flipped, tells what it told or is an error: never
// something else, and never nothing.
func TestDamage(t *testing.T) {
	for _, k := range keepers {
		t.Run(k.name, func(t *testing.T) {
			root, file, want := k.kept(t, 1)
			whole, err := os.ReadFile(file)
			must.OK(t, err)
			as, refused := 0, 0
			try := func(what string, text []byte) {
				t.Helper()
				must.OK(t, os.Remove(file)) // another file, as all that write it make
				must.OK(t, os.WriteFile(file, text, 0o644))
				switch got, err := k.read(root); {
				case err != nil:
					refused++
				case reflect.DeepEqual(got, want):
					as++
				default:
					t.Fatalf("%s: %+v without an error, want %+v:\n%s", what, got, want, text)
				}
			}
			for n := range whole {
				try(fmt.Sprintf("cut to %d bytes", n), whole[:n])
			}
			for bit := range 8 * len(whole) {
				text := []byte(string(whole))
				text[bit/8] ^= 1 << (bit % 8)
				try(fmt.Sprintf("with bit %d flipped", bit), text)
			}
			t.Logf("%d files: %d are refused, %d tell what the whole one does", as+refused, refused, as)
			if refused < 8*as {
				t.Errorf("only %d are refused, %d pass", refused, as)
			}
		})
	}
}

// A file of an older version is read. One of a newer version is an error that says what to do, and stays.
func TestVersions(t *testing.T) {
	for _, k := range keepers {
		root, file, _ := k.kept(t, 1)
		must.OK(t, os.Remove(file))
		must.OK(t, os.WriteFile(file, []byte(k.older), 0o644))
		if _, err := k.read(root); err != nil {
			t.Errorf("%s: an older file: %v", k.name, err)
		}
		must.OK(t, os.Remove(file))
		must.OK(t, os.WriteFile(file, []byte(k.newer), 0o644))
		if got, err := k.read(root); err == nil || !strings.Contains(err.Error(), "schema 2 is not known; known: 1; update isolio") {
			t.Errorf("%s: a newer file: %+v, %v", k.name, got, err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != k.newer {
			t.Errorf("%s: a newer file is %q now, %v", k.name, text, err)
		}
	}
}

// On a full disk each file is what it was, and nothing lies beside it.
func TestDiskFull(t *testing.T) {
	// In a process of its own: what go test writes beside the test has no room either.
	const alone = "ISOLIO_TEST_DISK_FULL"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDiskFull$")
		cmd.Env = append(os.Environ(), alone+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	for _, k := range keepers {
		root, file, want := k.kept(t, 1)
		var was unix.Rlimit
		must.OK(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
		must.OK(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 10, Max: was.Max}))
		err := k.write(root, 2)
		must.OK(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &was))
		if err == nil {
			t.Errorf("%s: written to a full disk", k.name)
		}
		if got, err := k.read(root); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", k.name, got, err, want)
		}
		if all, err := os.ReadDir(filepath.Dir(file)); err != nil || len(all) > 2 { // itself, and the daemon's lock
			t.Errorf("%s: %v, %v", k.name, all, err)
		}
		must.OK(t, k.write(root, 2))
		if got, err := k.read(root); err != nil || reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v after there was room again", k.name, got, err)
		}
	}
}
