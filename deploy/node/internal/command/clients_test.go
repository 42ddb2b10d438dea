// SPDX-License-Identifier: MIT

package command

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Clients that hold as many connections as they can take no more of the program than a few, and keep
// no probe, no scrape and no kubectl from its answer.
func TestClientsThatHoldConnections(t *testing.T) {
	const connections, filesMost, goroutinesMost, memoryMost = 2000, 2 * 64, 3 * 64, 32 << 20
	n := newNode(t)
	n.start()
	n.kubelet()
	taken := func() (goroutines, files, memory int) {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), len(all), int(m.HeapInuse + m.StackInuse)
	}
	for path, address := range map[string]string{"/metrics": n.address, "/pods": n.podsAddress} {
		ask := "GET " + path + " HTTP/1.1\r\nHost: n1\r\n"
		for what, request := range map[string]string{
			"nothing is sent":           "",
			"a header without an end":   ask + "X-More: ",
			"answers that are not read": strings.Repeat(ask+"Accept-Encoding: zstd, gzip\r\n\r\n", 8),
		} {
			t.Run(path[1:]+": "+what, func(t *testing.T) {
				goroutines, files, memory := taken()
				for range connections {
					conn, err := net.Dial("tcp", address)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { conn.Close() })
					fmt.Fprint(conn, request) // the connection may be closed by now
				}
				paths := []string{path}
				if address == n.address {
					paths = []string{"/livez", "/healthz", path}
				}
				for _, path := range paths {
					client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
					r, err := client.Get("http://" + address + path)
					if err != nil {
						t.Error(err)
						continue
					}
					if r.Body.Close(); r.StatusCode != http.StatusOK {
						t.Errorf("%s: %s", path, r.Status)
					}
				}
				g, f, m := taken()
				g, f, m = g-goroutines, f-files-connections, m-memory
				t.Logf("%d goroutines, %d files and %d KiB more", g, f, m>>10)
				if g > goroutinesMost || f > filesMost || m > memoryMost {
					t.Errorf("%d goroutines, %d files and %d KiB more; at most %d, %d and %d", g, f, m>>10, goroutinesMost, filesMost, memoryMost>>10)
				}
			})
		}
	}
}
