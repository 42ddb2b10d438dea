// SPDX-License-Identifier: MIT

package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// BenchmarkLook is a look at 200 containers at which nothing has changed: what
// the daemon does all the time.
func BenchmarkLook(b *testing.B) {
	h := newHost(b, "")
	for i := range 200 {
		id := strings.Repeat(fmt.Sprintf("%04x", i), 16)
		h.group("docker/"+id, 1920)
		h.put("var/lib/docker/containers/"+id+"/config.v2.json", `{"ID":"`+id+`","Name":"/c`+id[:4]+`"}`)
		h.put("var/lib/docker/containers/"+id+"/hostconfig.json", `{"BlkioWeight":200}`)
	}
	h.once()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Once(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}
