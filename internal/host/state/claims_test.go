// SPDX-License-Identifier: MIT

package state

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"isolio/internal/must"
	"isolio/internal/testtree"
)

func TestClaimFile(t *testing.T) {
	root := t.TempDir()
	b, err := ReadClaims(root)
	if err != nil || len(b.Pods) != 0 {
		t.Fatalf("without a file: %+v, %v", b, err)
	}
	web := PodClaims{UID: "b", Namespace: "shop", Name: "web", Shares: []ClaimedShare{{Claim: "disk", ClaimUID: "1", Device: "wwid-1", Disk: "sda", MajMin: "8:0", Share: 300}}}
	b.Set(web)
	b.Set(PodClaims{UID: "a", Namespace: "shop", Name: "db", Default: 500, Why: "PriorityClass gold: 500"})
	must.OK(t, b.Write(root))
	again, err := ReadClaims(root)
	if err != nil || !reflect.DeepEqual(again.Pods, b.Pods) || again.Pods[0].Name != "db" {
		t.Errorf("%+v, %v; want %+v", again, err, b)
	}
	if got := again.Find("b"); got == nil || !reflect.DeepEqual(*got, web) {
		t.Errorf("Find = %+v", got)
	}
	if again.Find("") != nil || again.Find("c") != nil {
		t.Error("pods that were given nothing are found")
	}
	if info, err := os.Stat(filepath.Join(root, ClaimsFile)); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	again.Set(PodClaims{UID: "b"})
	if again.Find("b") != nil {
		t.Error("a pod that has nothing is kept")
	}
}

// Pods that have a claim together have it once.
func TestSplit(t *testing.T) {
	b := Claims{Pods: []PodClaims{
		{UID: "a", Shares: []ClaimedShare{{ClaimUID: "1", Device: "d1", Claimed: 300}, {ClaimUID: "2", Device: "d2", Claimed: 50}}},
		{UID: "b", Shares: []ClaimedShare{{ClaimUID: "1", Device: "d1", Claimed: 300}}}, // the same claim
		{UID: "c", Shares: []ClaimedShare{{Claimed: 100}}},                              // of each disk
		{UID: "d", Shares: []ClaimedShare{{Claimed: 7}}},
		{UID: "e", Shares: []ClaimedShare{{ClaimUID: "3", Device: "d3", Claimed: 1}}},
		{UID: "f", Shares: []ClaimedShare{{ClaimUID: "3", Device: "d3", Claimed: 1}}}, // 1 is not split
	}}
	b.Split()
	if got := b.Find("b").Shares[0].Share; got != 150 {
		t.Errorf("b has %d of a claim on 300 that two pods have", got)
	}
	if d1, d2, d3 := b.Promised("d1"), b.Promised("d2"), b.Promised("d3"); d1 != 407 || d2 != 157 || d3 != 108 {
		t.Errorf("promised: %d, %d, %d; want 407, 157, 108", d1, d2, d3)
	}
	b.Drop("1")
	b.Split()
	if b.Find("b") != nil || len(b.Find("a").Shares) != 1 || b.Promised("d1") != 107 {
		t.Errorf("after Drop: %+v", b)
	}
}

// A pod that ended while others have its claim leaves them its part.
func TestSplitOfEnded(t *testing.T) {
	part := []ClaimedShare{{ClaimUID: "1", Device: "d1", Claimed: 300}}
	for _, tt := range []struct {
		ended [3]bool
		want  [3]int
	}{
		{[3]bool{false, false, false}, [3]int{100, 100, 100}},
		{[3]bool{false, true, false}, [3]int{150, 0, 150}},
		{[3]bool{true, true, false}, [3]int{0, 0, 300}},
		{[3]bool{true, true, true}, [3]int{100, 100, 100}},
	} {
		var b Claims
		for i, ended := range tt.ended {
			b.Set(PodClaims{UID: string(rune('a' + i)), Shares: slices.Clone(part), Ended: ended})
		}
		b.Split()
		for i, want := range tt.want {
			if got := b.Pods[i].Shares[0].Share; got != want {
				t.Errorf("ended %v: pod %d has %d, want %d", tt.ended, i, got, want)
			}
		}
	}
}

func TestDamaged(t *testing.T) {
	for text, want := range map[string]string{"": "is damaged: unexpected end", "{}": "is damaged: its schema", `{"schema":2}`: "schema 2 is not known; known: 1; update isolio"} {
		root := t.TempDir()
		name := filepath.Join(root, ClaimsFile)
		testtree.File(t, name, text)
		if _, err := ReadClaims(root); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ClaimsFile) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestString(t *testing.T) {
	for want, s := range map[string]ClaimedShare{
		"claim disk: 300 of 1000 shares of sda":             {Claim: "disk", Disk: "sda", Share: 300},
		"extended resource: 20 of 1000 shares of each disk": {Share: 20},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Whatever pods have a claim together, and whichever of them end, they have no more than it is on,
// and a pod keeps its part when others come.
func TestSplitSellsNothingTwice(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 1))
	for round := range 300 {
		var b Claims
		claimed := map[string]int{}
		for i := range 1 + random.IntN(4) {
			uid := fmt.Sprint(i)
			claimed[uid] = 1 + random.IntN(20)
		}
		had := map[string]int{}
		for range 40 {
			uid := fmt.Sprint(random.IntN(len(claimed)))
			pod := fmt.Sprint(random.IntN(60))
			p := PodClaims{UID: pod, Shares: []ClaimedShare{{ClaimUID: uid, Device: "d", Claimed: claimed[uid]}}}
			if old := b.Find(pod); old != nil {
				p = *old
				p.Ended = !p.Ended
			}
			b.Set(p)
			b.Split()
			sum := map[string]int{}
			running := map[string]int{}
			for _, p := range b.Pods {
				s := p.Shares[0]
				sum[s.ClaimUID] += s.Share
				if !p.Ended {
					running[s.ClaimUID]++
				}
			}
			for uid, n := range sum {
				if n > claimed[uid] || running[uid] > 0 && n < claimed[uid]-running[uid] {
					t.Fatalf("round %d: pods have %d by a claim on %d", round, n, claimed[uid])
				}
			}
			for _, p := range b.Pods {
				s := p.Shares[0]
				if had[p.UID] > 0 && s.Share == 0 && !p.Ended {
					t.Fatalf("round %d: %s lost its part of a claim on %d to a pod that came", round, p.UID, s.Claimed)
				}
				had[p.UID] = s.Share
			}
		}
	}
}
