// SPDX-License-Identifier: MIT

package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"isolio/internal/must"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// crowded is a host with 200 containers more, and the files that Docker and
// containerd keep about them.
func crowded(b *testing.B) *host {
	b.Helper()
	h := newHost(b, "")
	for i := range 200 {
		h.container(i)
	}
	long := time.Now().Add(-time.Hour)
	for _, pattern := range []string{"var/lib/docker/containers/*/*", "run/containerd/*/*/*/*"} {
		files, err := filepath.Glob(filepath.Join(h.Root, pattern))
		must.OK(b, err)
		for _, file := range files {
			must.OK(b, os.Chtimes(file, long, long))
		}
	}
	h.once()
	return h
}

// container is one that has read once.
func (h *host) container(i int) (group string) {
	h.t.Helper()
	id := strings.Repeat(fmt.Sprintf("%04x", i), 16)
	group = "docker/" + id
	h.group(group, 1920)
	h.put("sys/fs/cgroup/"+group+"/io.kyber.stat", "8:0 rbytes=4096 wbytes=0 rios=1 wios=0 throttled_usec=0 weight=200 share_ppm=0 rlat_ios=1 rlat_p50_usec=20 rlat_p90_usec=20 rlat_p99_usec=20 rlat_p999_usec=20\n")
	h.put("sys/fs/cgroup/"+group+"/io.kyber.latency", "8:0 r20480=1\n")
	h.put("var/lib/docker/containers/"+id+"/config.v2.json", `{"ID":"`+id+`","Name":"/c`+id[:4]+`"}`)
	h.put("var/lib/docker/containers/"+id+"/hostconfig.json", `{"BlkioWeight":200}`)
	spec := specs.Spec{Linux: &specs.Linux{CgroupsPath: "/" + group, Seccomp: &specs.LinuxSeccomp{
		Syscalls: []specs.LinuxSyscall{{Names: slices.Repeat([]string{"clock_nanosleep_time64"}, 400)}},
	}}}
	text, err := json.Marshal(spec)
	must.OK(h.t, err)
	h.put("run/containerd/io.containerd.runtime.v2.task/moby/"+id+"/config.json", string(text))
	return group
}

// BenchmarkLook is a look at all of 200 containers at which nothing has changed.
func BenchmarkLook(b *testing.B) {
	h := crowded(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.Once(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCome is a container that comes where 200 are.
func BenchmarkCome(b *testing.B) {
	h := crowded(b)
	at := scope{moved: true}
	at.add(h.container(1000))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.write(context.Background(), at); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScrape is one of the metrics of 200 containers.
func BenchmarkScrape(b *testing.B) {
	h := crowded(b)
	handler := NewMetrics(h.Root, h.tree, h.finder).Handler()
	b.ReportAllocs()
	for b.Loop() {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
		if _, err := io.Copy(io.Discard, recorder.Body); err != nil {
			b.Fatal(err)
		}
	}
}
