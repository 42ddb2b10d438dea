// SPDX-License-Identifier: MIT

package daemon

import (
	"testing"

	"isolio/internal/host/claim"
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
		b := claim.Book{}
		b.Set(claim.Pod{UID: web.Uid, Namespace: "shop", Name: "pod-1", Shares: []claim.Share{{Claimed: shares, Share: shares}}})
		if err := b.Write(h.Root); err != nil {
			t.Fatal(err)
		}
	}
	give(300)
	h.start()
	h.becomes(webGroup, "300")
	h.becomes(batchGroup, "700")
	give(600)
	t.Logf("another share is there after %v", h.becomes(webGroup, "600"))
	h.becomes(batchGroup, "400")
	if err := (claim.Book{}).Write(h.Root); err != nil {
		t.Fatal(err)
	}
	h.becomes(batchGroup, "1000")
	h.becomes(webGroup, "100")
}
