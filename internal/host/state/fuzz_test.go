// SPDX-License-Identifier: MIT

package state

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/host/cgroup"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// FuzzFiles reads a text as each file of /run/isolio. An error is one line; what is read can be written, and is the
// same when it is read again; parts of a claim are no more than the claim.
func FuzzFiles(f *testing.F) {
	f.Add([]byte(`{"schema":1,"pods":[{"uid":"a","shares":[{"claim":"c","claim_uid":"d","device":"e","share":3,"claimed":7}]},{"uid":"b","shares":[{"claim_uid":"d","device":"e","claimed":7}]}]}`))
	f.Add([]byte(`{"schema":1,"pods":[{"id":"a","uid":"b","labels":{"c":"d"},"containers":[{"id":"e"}]}]}`))
	f.Add([]byte(`{"schema":1,"weights":[{"cgroup":"a","disk":"8:0","factor":2,"most":4}]}`))
	f.Add([]byte(`[{"cgroup":"a","disk":"8:0","factor":2,"most":4}]`))
	f.Add([]byte(`{"schema":1,"cgroup":"/a","weights":{"8:0":{"weight":100,"before":0}}}`))
	f.Add([]byte(`{"schema":1,"disks":[{"device":"sda","why":"x"}]}`))
	f.Add(seal([]byte(`{"schema":1,"unseen":"","by_rules":{"8:0":3}}`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		root := testtree.New(t, map[string]string{"sys/fs/cgroup/a/cgroup.procs": ""})
		for _, name := range []string{ClaimsFile, PodReportFile, podSightFile, boostsFile, "errors"} {
			testtree.File(t, filepath.Join(root, name), string(text))
		}
		tree := cgroup.Tree{Root: filepath.Join(root, "sys/fs/cgroup")}
		store := OpenApplied(root, tree)
		name, err := store.path("/a")
		must.OK(t, err)
		testtree.File(t, name, string(text))
		fuzzlimit.Run(t, uint64(4<<20+200*len(text)), func() {
			claims, claimsErr := ReadClaims(root)
			report, _, reportErr := ReadPodReport(root)
			boosts, boostsErr := LoadBoosts(root)
			disks, disksErr := ReadEnableErrors(filepath.Join(root, "errors"))
			_, appliedErr := store.Get("/a")
			for _, err := range []error{claimsErr, reportErr, boostsErr, disksErr, appliedErr} {
				if err != nil && strings.Contains(err.Error(), "\n") {
					t.Errorf("%q is not one line", err)
				}
			}
			if claimsErr == nil {
				claims.Split()
				checkParts(t, claims)
				must.OK(t, claims.Write(root))
				again, err := ReadClaims(root)
				must.OK(t, err)
				again.Split()
				if len(again.Pods) != len(claims.Pods) {
					t.Errorf("%+v is read again as %+v", claims, again)
				}
			}
			if reportErr == nil {
				must.OK(t, report.Write(root))
				again, _, err := ReadPodReport(root)
				must.OK(t, err)
				again.Schema = report.Schema
				if len(again.Pods) != len(report.Pods) {
					t.Errorf("%+v is read again as %+v", report, again)
				}
			}
			if disksErr == nil && len(disks) > 0 {
				must.OK(t, WriteEnableErrors(filepath.Join(root, "again"), disks))
				again, err := ReadEnableErrors(filepath.Join(root, "again"))
				must.OK(t, err)
				if !reflect.DeepEqual(again, disks) {
					t.Errorf("%+v is read again as %+v", disks, again)
				}
			}
			for _, b := range boosts {
				if boostsErr == nil && !(b.Factor >= 0) {
					t.Errorf("a weight is raised by %v", b.Factor)
				}
			}
		})
		if _, err := os.Stat(name); err != nil {
			t.Errorf("reading a mark removes it: %v", err)
		}
	})
}

// checkParts compares what pods have of each claim with the claim.
func checkParts(t *testing.T, claims Claims) {
	t.Helper()
	type key struct{ claim, device string }
	parts, most := map[key]int{}, map[key]int{}
	for _, p := range claims.Pods {
		for _, s := range p.Shares {
			if s.ClaimUID != "" {
				parts[key{s.ClaimUID, s.Device}] += s.Share
				most[key{s.ClaimUID, s.Device}] = max(most[key{s.ClaimUID, s.Device}], s.Claimed)
			}
		}
	}
	for k, part := range parts {
		if part > most[k] || part < 0 {
			t.Errorf("pods have %d of claim %v, which is on %d", part, k, most[k])
		}
	}
}
