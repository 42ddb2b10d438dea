// SPDX-License-Identifier: MIT

package daemon

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"isolio/internal/host/state"
	"isolio/internal/must"
)

// What a cluster gives a pod is its weight from its beginning on, and others share what is
// left. What changes later is seen as well.
func TestClaims(t *testing.T) {
	h := newHost(t, "")
	web, webGroup := h.podOf(1, nil)
	batch, batchGroup := h.podOf(2, map[string]string{"isolio.dev/weight": "1000"})
	h.runtime(web, batch)
	give := func(shares int) {
		t.Helper()
		b := state.Claims{}
		b.Set(state.PodClaims{UID: web.Uid, Namespace: "shop", Name: "pod-1", Shares: []state.ClaimedShare{{Claimed: shares, Share: shares}}})
		must.OK(t, b.Write(h.Root))
	}
	give(300)
	h.start()
	h.becomes(webGroup, "300")
	h.becomes(batchGroup, "700")
	give(600)
	t.Logf("another share is there after %v", h.becomes(webGroup, "600"))
	h.becomes(batchGroup, "400")
	must.OK(t, (state.Claims{}).Write(h.Root))
	h.becomes(batchGroup, "1000")
	h.becomes(webGroup, "100")
}

// What the cluster gave pods cannot be read when the daemon starts: pods keep the weights that they
// have, until the file is whole again.
func TestClaimsThatCannotBeReadTakeNothingAway(t *testing.T) {
	for name, text := range map[string]string{
		"truncated": `{"schema": 1, "pods": [{"uid"`, "empty": "", "of no schema": "{}", "of a newer version": `{"schema": 2, "pods": []}`,
		"not complete": `{"schema": 1, "incomplete": true, "pods": []}`, "with a share that is none": `{"schema": 1, "pods": [{"uid": "x", "shares": [{"share": -1}]}]}`,
		"too large": strings.Repeat(" ", 9<<20),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, "")
			web, webGroup := h.podOf(1, nil)
			batch, batchGroup := h.podOf(2, map[string]string{"isolio.dev/weight": "1000"})
			h.runtime(web, batch)
			b := state.Claims{}
			b.Set(state.PodClaims{UID: web.Uid, Namespace: "shop", Name: "pod-1", Shares: []state.ClaimedShare{{Claimed: 300, Share: 300}}})
			must.OK(t, b.Write(h.Root))
			stop := h.start()
			h.becomes(webGroup, "300")
			h.becomes(batchGroup, "700")
			stop()
			h.put(state.ClaimsFile, text)
			again := &host{t: t, Daemon: &Daemon{Root: h.Root, RuleFile: h.RuleFile, Every: h.Every}}
			log := again.logged()
			must.OK(t, again.Open())
			again.once()
			again.once()
			if got := again.weights(webGroup, batchGroup); got != "300 700" {
				t.Errorf("weights %s, want 300 700", got)
			}
			if got := strings.Count(log.String(), "claims.json"); got != 1 || again.problems() != 1 {
				t.Errorf("%d problems, of which the log tells %d times:\n%s", again.problems(), got, log)
			}
			b.Set(state.PodClaims{UID: web.Uid, Namespace: "shop", Name: "pod-1", Shares: []state.ClaimedShare{{Claimed: 400, Share: 400}}})
			must.OK(t, b.Write(h.Root))
			again.once()
			if got := again.weights(webGroup, batchGroup); got != "400 600" || again.problems() != 0 {
				t.Errorf("weights %s, want 400 600; %d problems", got, again.problems())
			}
		})
	}
}

// So it is with what the runtime told of pods.
func TestAReportThatCannotBeReadTakesNothingAway(t *testing.T) {
	h := newHost(t, "")
	web, group := h.podOf(1, map[string]string{"isolio.dev/weight": "500"})
	h.runtime(web)
	stop := h.start()
	h.becomes(group, "500")
	stop()
	h.put(state.PodReportFile, `{"engine": "containerd", "pods": [{"id"`)
	again := &host{t: t, Daemon: &Daemon{Root: h.Root, RuleFile: h.RuleFile, Every: h.Every}}
	log := again.logged()
	must.OK(t, again.Open())
	again.once()
	if got := again.weights(group); got != "500" {
		t.Errorf("weight %s, want 500", got)
	}
	if got := strings.Count(log.String(), "pods.json"); got != 1 || again.problems() != 1 {
		t.Errorf("%d problems, of which the log tells %d times:\n%s", again.problems(), got, log)
	}
}

// A rule that comes after claims gives more than the disk has: the log and a metric tell, and isolio-node
// is told what rules give. A rule of a pod that has a claim counts for what it is beyond the claim.
func TestOvergivenShares(t *testing.T) {
	h := newHost(t, "")
	h.Every = 50 * time.Millisecond
	log := h.logged()
	web, webGroup := h.podOf(1, nil)
	ruled, ruledGroup := h.podOf(2, nil)
	ruled.Namespace = "kube-system"
	h.runtime(web, ruled)
	b := state.Claims{}
	b.Set(state.PodClaims{UID: web.Uid, Namespace: "shop", Name: "pod-1", Shares: []state.ClaimedShare{{Claimed: 700, Share: 700}}})
	b.Set(state.PodClaims{UID: ruled.Uid, Namespace: "kube-system", Name: "pod-2", Shares: []state.ClaimedShare{{Claimed: 200, Share: 200}}})
	must.OK(t, b.Write(h.Root))
	h.start()
	h.becomes(webGroup, "700")
	h.becomes(ruledGroup, "200")
	told := func(over, byRules int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			now := state.ReadPodSight(h.Root)
			if h.health.now().over == over && now.ByRules["8:0"] == byRules && now.Unseen == "" {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("20 s: %d shares over, %+v", h.health.now().over, now)
			}
		}
	}
	told(0, 0)
	h.put("etc/isolio.toml", "[[rule]]\npod = 'kube-system/*'\nweight = 350\n")
	must.OK(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	told(50, 150)
	h.becomes(ruledGroup, "350")
	if n := strings.Count(log.String(), "claims give 900 and rules 150 of its 1000 shares"); n != 1 {
		t.Errorf("the log tells %d times:\n%s", n, log)
	}
	h.put("etc/isolio.toml", "")
	must.OK(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	told(0, 0)
}
