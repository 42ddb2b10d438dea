// SPDX-License-Identifier: MIT

package driver

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"isolio/internal/host/state"
)

// What a node full of large pods may take of the memory: at a time, of the 172 MiB from which on Go
// collects all that is not used, and for good.
const (
	heapMost = 96 << 20
	keptMost = 8 << 20
)

// nodePods is how many pods kubelet lets a node have by default, and podSize about how large the API
// server lets each of them be.
const (
	nodePods = 110
	podSize  = 1300 << 10
)

// Whatever large pods consist of, and their namespaces, what is kept of them is little, and they are
// read one after another.
func TestMemoryOfLargePods(t *testing.T) {
	many := func(one string) string { // %d is the number of each
		var all strings.Builder
		for i := 0; all.Len() < podSize; i++ {
			if i > 0 {
				all.WriteByte(',')
			}
			fmt.Fprintf(&all, one, i)
		}
		return all.String()
	}
	text := strings.Repeat("x", 1000)
	volumes := `"spec":{"volumes":[` + many(`{"name":"v%062d","emptyDir":{}}`) + `]}`
	for what, tt := range map[string]struct{ pod, space, mounts string }{
		"text":                                {`"spec":{"containers":[{"name":"c","image":"i","env":[` + many(`{"name":"E%d","value":"`+text+`"}`) + `]}]}`, "", root},
		"volumes":                             {volumes, "", root},
		"volumes, and the table is not there": {volumes, "", ""},
		"long paths":                          {`"spec":{"volumes":[` + many(`{"name":"v%d","hostPath":{"path":"/srv/`+strings.Repeat("x", 5000)+`"}}`) + `]}`, "", ""},
		"namespaces":                          {`"spec":{}`, `"annotations":{"isolio.dev/default-weight":"` + strings.Repeat("9", 200<<10) + `"},"labels":{` + many(`"l%d":"v"`) + `}`, root},
	} {
		t.Run(what, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch path := strings.Split(r.URL.Path, "/"); {
				case r.Method == http.MethodPost:
					_, _ = io.Copy(w, r.Body) // an event
				case len(path) == 7 && path[5] == "pods":
					fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":%q,"name":%q,"uid":%q},`, path[4], path[6], path[6])
					_, _ = io.WriteString(w, tt.pod+"}")
				case len(path) == 5:
					fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q`, path[4])
					if tt.space != "" {
						_, _ = io.WriteString(w, ","+tt.space)
					}
					_, _ = io.WriteString(w, "}}")
				default:
					t.Errorf("%s %s", r.Method, r.URL)
				}
			}))
			defer server.Close()
			client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			d := &Driver{Root: t.TempDir(), Node: "n1", KubeletDir: "/var/lib/kubelet", Mounts: "/proc/1/mountinfo", Client: client, Log: slog.New(slog.DiscardHandler)}
			files := map[string]string{"sys/block/sda/dev": "8:0", "sys/block/sda/size": "8", "sys/block/sda/queue/scheduler": "none [kyber-fairness]"}
			if tt.mounts != "" {
				files["proc/1/mountinfo"] = tt.mounts
			}
			for file, text := range files {
				name := filepath.Join(d.Root, file)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var report state.PodReport
			for i := range nodePods {
				report.Pods = append(report.Pods, state.ReportedPod{ID: fmt.Sprint("s", i), UID: fmt.Sprint("p", i), Namespace: fmt.Sprint("n", i), Name: fmt.Sprint("p", i)})
			}
			if err := report.Write(d.Root); err != nil {
				t.Fatal(err)
			}
			before, stop := heap(), make(chan struct{})
			most := make(chan int)
			go func() {
				highest := 0
				for {
					select {
					case <-stop:
						most <- highest
						return
					case <-time.After(2 * time.Millisecond):
						var m runtime.MemStats
						runtime.ReadMemStats(&m)
						highest = max(highest, int(m.HeapInuse))
					}
				}
			}()
			begin := time.Now()
			for range 5 { // one asks for 20 s, and this may be a slow machine
				if err := d.Look(t.Context(), nil); err != nil {
					t.Error(err)
				}
				if len(d.Pods().Pods) == nodePods {
					break
				}
			}
			close(stop)
			highest, kept := <-most, heap()-before
			if n := len(d.Pods().Pods); n != nodePods {
				t.Errorf("%d pods are known", n)
			}
			t.Logf("%d KiB at a time, %d KiB for good, %s", highest>>10, kept>>10, time.Since(begin).Round(time.Millisecond))
			if highest > heapMost || kept > keptMost {
				t.Errorf("%d KiB at a time, %d KiB for good; at most %d and %d", highest>>10, kept>>10, heapMost>>10, keptMost>>10)
			}
			runtime.KeepAlive(d)
		})
	}
}

// root is a node's table of mounts with one disk.
const root = "21 1 8:0 / / rw - ext4 /dev/sda rw\n"

// heap is what is in use after what is not was collected.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
