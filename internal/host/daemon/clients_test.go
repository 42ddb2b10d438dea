// SPDX-License-Identifier: MIT

package daemon

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"isolio/internal/must"

	"golang.org/x/sys/unix"
)

// What clients may take of the daemon, whatever they do.
const (
	goroutinesMost = 3 * 64
	filesMost      = 2 * 64
	memoryMost     = 16 << 20
)

// taken is what the process has of goroutines, of files and of memory.
func taken(t *testing.T) (goroutines, files, memory int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	must.OK(t, err)
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), len(all), int(m.HeapInuse + m.StackInuse)
}

// served is a daemon with 200 containers, and the address of its metrics.
func served(t *testing.T) (h *host, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address = l.Addr().String()
	l.Close()
	h = newHost(t, "metrics = \""+address+"\"\n")
	for i := range 200 {
		h.container(i)
	}
	h.once()
	h.serve(context.Background())
	t.Cleanup(h.stopServing)
	if h.server == nil {
		t.Skipf("another program took %s", address)
	}
	return h, address
}

// answered is an error unless a path is answered with a text within a time.
func answered(url, text string, within time.Duration) error {
	client := http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	if err == nil && (r.StatusCode != http.StatusOK || !strings.Contains(string(got), text)) {
		err = fmt.Errorf("status %d, %d bytes without %q", r.StatusCode, len(got), text)
	}
	return err
}

// attacker connects from another address than a test's own client.
var attacker = net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}

// probeTime is how long kubelet waits for the answer of the chart's probes, and scrapeTime how long
// Prometheus waits for that of a scrape.
const (
	probeTime  = 5 * time.Second
	scrapeTime = 10 * time.Second
)

// Clients that hold as many connections as they can, with any part of a request, take no more of the
// daemon than a few, and keep no probe and no scrape from its answer.
func TestClientsThatHoldConnections(t *testing.T) {
	const connections = 2000
	const ask = "GET /metrics HTTP/1.1\r\nHost: n\r\n"
	for what, request := range map[string]string{
		"nothing is sent":            "",
		"a header without an end":    ask + "X-More: ",
		"after an answer":            "GET /livez HTTP/1.1\r\nHost: n\r\n\r\n",
		"answers that are not read":  strings.Repeat(ask+"\r\n", 8),
		"a body that does not come":  "POST /livez HTTP/1.1\r\nHost: n\r\nContent-Length: 100000\r\n\r\n",
		"a header of the most bytes": ask + "X-More: " + strings.Repeat("x", 15<<10),
	} {
		t.Run(what, func(t *testing.T) {
			_, address := served(t)
			must.OK(t, answered("http://"+address+"/metrics", "isolio_reconciles_total", scrapeTime))
			goroutines, files, memory := taken(t)
			for range connections {
				conn, err := net.Dial("tcp", address)
				must.OK(t, err)
				t.Cleanup(func() { conn.Close() })
				fmt.Fprint(conn, request) // the connection may be closed by now
			}
			for i := range 5 {
				if err := answered("http://"+address+"/livez", "ok", probeTime); err != nil {
					t.Errorf("probe %d: %v", i, err)
				}
			}
			if err := answered("http://"+address+"/metrics", "isolio_reconciles_total", scrapeTime); err != nil {
				t.Errorf("scrape: %v", err)
			}
			g, f, m := taken(t)
			g, f, m = g-goroutines, f-files-connections, m-memory
			t.Logf("%d goroutines, %d files and %d KiB more", g, f, m>>10)
			if g > goroutinesMost || f > filesMost || m > memoryMost {
				t.Errorf("%d goroutines, %d files and %d KiB more; at most %d, %d and %d", g, f, m>>10, goroutinesMost, filesMost, memoryMost>>10)
			}
		})
	}
}

// The daemon says that it lives while a read of a file does not end, and requests that wait
// for the file go with their clients. It does not once its loop does not turn.
func TestLiveness(t *testing.T) {
	h, address := served(t)
	file := h.tree.Path("docker/"+idA) + "/io.kyber.stat"
	must.OK(t, unix.Mkfifo(file, 0o644))
	ended := make(chan error, 1)
	go func() { ended <- answered("http://"+address+"/metrics", "isolio_reconciles_total", time.Minute) }()
	var answer *os.File
	eventually(t, "the file is read", func() bool {
		var err error
		answer, err = os.OpenFile(file, os.O_WRONLY|unix.O_NONBLOCK, 0)
		return err == nil
	})
	before := runtime.NumGoroutine()
	for range 1000 {
		conn, err := attacker.Dial("tcp", address)
		must.OK(t, err)
		fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: n\r\n\r\n")
		conn.Close()
	}
	if err := answered("http://"+address+"/livez", "ok", probeTime); err != nil {
		t.Error(err)
	}
	eventually(t, "requests go with their clients", func() bool { return runtime.NumGoroutine() < before+goroutinesMost })
	answer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	h.health.turned = time.Now().Add(-hung - time.Second)
	if err := answered("http://"+address+"/livez", "ok", probeTime); err == nil || !strings.Contains(err.Error(), "status 503") {
		t.Errorf("its loop does not turn: %v", err)
	}
}

// A client that makes connections without end, and asks for metrics on each without reading them, ends
// no probe and no scrape of another client.
func TestClientsThatComeWithoutEnd(t *testing.T) {
	_, address := served(t)
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var made [16]int
	for i := range made {
		all.Go(func() {
			var open []net.Conn
			for ctx.Err() == nil {
				conn, err := attacker.DialContext(ctx, "tcp", address)
				if err != nil {
					continue
				}
				fmt.Fprint(conn, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: n\r\n\r\n", 8))
				made[i]++
				if open = append(open, conn); len(open) > 16 {
					open[0].Close()
					open = open[1:]
				}
			}
			for _, conn := range open {
				conn.Close()
			}
		})
	}
	time.Sleep(time.Second)
	var longest time.Duration
	for i := range 10 {
		begin := time.Now()
		if err := answered("http://"+address+"/livez", "ok", probeTime); err != nil {
			t.Errorf("probe %d: %v", i, err)
		}
		longest = max(longest, time.Since(begin))
		if err := answered("http://"+address+"/metrics", "isolio_reconciles_total", scrapeTime); err != nil {
			t.Errorf("scrape %d: %v", i, err)
		}
	}
	end()
	all.Wait()
	sum := 0
	for _, n := range made {
		sum += n
	}
	t.Logf("%d connections beside; the longest probe took %s", sum, longest)
}
