// SPDX-License-Identifier: MIT

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	scheduling "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clienttesting "k8s.io/client-go/testing"

	dra "k8s.io/kubelet/pkg/apis/dra/v1"

	"isolio/deploy/node/internal/driver"
	"isolio/internal/host/state"
	"isolio/internal/host/web"
)

// metrics is what Prometheus is told, "" for no answer.
func (n *node) metrics() string {
	r, err := http.Get("http://" + n.address + "/metrics") //nolint:noctx // of a test's own
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return string(text)
}

// A node asks for little: what is watched are its own slices.
func TestRequests(t *testing.T) {
	n := newNode(t, claimOf("c1", nvme, 300, webUID), podOf("shop", "web", webUID, "claim-c1"))
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
	n.start()
	n.kubelet()
	n.given(webUID, 300)
	time.Sleep(5 * time.Second) // two more looks
	count := map[string]int{}
	for _, a := range n.cluster.Actions() {
		count[a.GetVerb()+" "+a.GetResource().Resource]++
	}
	for what, most := range map[string]int{"watch resourceslices": 1, "get pods": 1, "get resourceclaims": 1, "get namespaces": 1, "get nodes": 2, "create resourceslices": 1} {
		if count[what] > most {
			t.Errorf("%s: %d times", what, count[what])
		}
	}
	for what := range count {
		if verb, _, _ := strings.Cut(what, " "); verb == "watch" && what != "watch resourceslices" {
			t.Errorf("%s", what)
		}
	}
	t.Log(count)
}

// A node with as many pods as kubelet lets it have is known in seconds.
func TestRate(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintln(w, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":"` + server.URL + `"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &driver.Driver{}
	if err := (&flags{kubeconfig: file}).connect(d); err != nil {
		t.Fatal(err)
	}
	const pods = 110
	begin := time.Now()
	for range pods {
		if _, err := d.Client.CoreV1().Pods("shop").Get(t.Context(), "web", meta.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("%d requests took %s", pods, took)
	}
}

// A process that is started again registers before the API server has told of each pod, and
// asks for what pods have in common once.
func TestRegistrationComesFirst(t *testing.T) {
	objects := []runtime.Object{claimOf("c1", nvme, 300, webUID), podOf("shop", "web", webUID, "claim-c1")}
	reported := []state.ReportedPod{{ID: "s0", UID: webUID, Namespace: "shop", Name: "web"}}
	for i := 2; i < 9; i++ {
		name, uid := fmt.Sprint("p", i), fmt.Sprint(i)+webUID[1:]
		pod := podOf("shop", name, uid, "")
		pod.Spec.PriorityClassName = "plain"
		objects = append(objects, pod)
		reported = append(reported, state.ReportedPod{ID: "s" + name, UID: uid, Namespace: "shop", Name: name})
	}
	n := newNode(t, append(objects, &scheduling.PriorityClass{ObjectMeta: meta.ObjectMeta{Name: "plain"}})...)
	n.report(reported...)
	stop := n.start()
	n.until("all pods", func() bool { return len(n.book().Pods) == len(reported) })
	stop()
	count := map[string]int{}
	for _, a := range n.cluster.Actions() {
		count[a.GetVerb()+" "+a.GetResource().Resource]++
	}
	if count["get namespaces"] != 1 || count["get priorityclasses"] != 1 {
		t.Errorf("asked of %d pods of one namespace: %v", len(reported), count)
	}
	answer := make(chan struct{})
	n.cluster.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-answer
		return false, nil, nil
	})
	n.start()
	n.register()
	n.given(webUID, 300)
	close(answer)
}

// A program that begins while the API server is away registers all the same: kubelet takes
// claims back without it, and pods could not end otherwise.
func TestTheAPIServerIsAway(t *testing.T) {
	c := claimOf("c1", nvme, 300, webUID)
	n := newNode(t, c)
	n.cluster.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("connection refused")
	})
	b := state.Claims{}
	b.Set(state.PodClaims{UID: webUID, Namespace: "shop", Name: "web", Shares: []state.ClaimedShare{{Claim: c.Name, ClaimUID: "c1", Device: nvme, Disk: "nvme0n1", MajMin: "259:0", Claimed: 300}}})
	if err := b.Write(n.root); err != nil {
		t.Fatal(err)
	}
	n.start()
	k := dra.NewDRAPluginClient(n.dial(n.register()))
	n.given(webUID, 300)
	unprepare(t, k, c)
	n.given(webUID, 0)
	// Disks are looked at, though none can be published, and kubelet need not start it again.
	n.put("sys/block/nvme0n1/queue/scheduler", "[none] kyber-fairness")
	n.until("a look at disks", func() bool {
		return strings.Contains(n.metrics(), `isolio_node_disk_shares{device="`+nvme+`",disk="nvme0n1"} 0`)
	})
}

// onFullDisk runs the test again in a process that can write no bytes to files. It returns true in
// that process.
func onFullDisk(t *testing.T) bool {
	t.Helper()
	const full = "ISOLIO_TEST_FULL_DISK"
	if os.Getenv(full) == "" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
		again.Env = append(os.Environ(), full+"=1")
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return false
	}
	signal.Ignore(syscall.SIGXFSZ) // a write fails with EFBIG then
	return true
}

// Where the file of what pods were given cannot be written, such as on a full disk, the API server
// is not asked about all pods at each look, and a claim that fails is counted.
func TestTheFileCannotBeWritten(t *testing.T) {
	if !onFullDisk(t) {
		return
	}
	c := claimOf("c1", nvme, 300, webUID)
	n := newNode(t, c, podOf("shop", "web", webUID, c.Name))
	n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: "web"})
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{}); err != nil {
		t.Fatal(err)
	}
	n.start()
	k := dra.NewDRAPluginClient(n.dial(n.register()))
	if r, err := prepare(t, k, c); err != nil || !strings.Contains(r.Error, "what pods were given: ") {
		t.Errorf("%+v, %v", r, err)
	}
	if text := n.metrics(); !strings.Contains(text, `isolio_node_prepared_claims_total{result="failed"} 1`) {
		t.Error("the claim is not counted")
	}
	time.Sleep(9 * time.Second) // four more looks
	asked := 0
	for _, a := range n.cluster.Actions() {
		if a.Matches("get", "pods") {
			asked++
		}
	}
	if asked > 3 {
		t.Errorf("the API server was asked about the pod %d times", asked)
	}
}

// An event that the API server refuses is not written again, and one that fails is after a pause.
func TestEventsThatFail(t *testing.T) {
	name := strings.Repeat("n", 199) + "-" + strings.Repeat("n", 53) // it is cut in its middle
	for what, tt := range map[string]struct {
		err         error
		least, most int32
	}{
		"refused": {apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "e", nil), 1, 1},
		"gone":    {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), 1, 1},
		"failed":  {errors.New("connection refused"), 2, 3},
	} {
		t.Run(what, func(t *testing.T) {
			n := newNode(t, podOf("shop", name, webUID, ""))
			n.report(state.ReportedPod{ID: "s1", UID: webUID, Namespace: "shop", Name: name, Annotations: map[string]string{"isolio.dev/weight": "high"}})
			var tried atomic.Int32
			n.cluster.PrependReactor("create", "events", func(a clienttesting.Action) (bool, runtime.Object, error) {
				tried.Add(1)
				event := a.(clienttesting.CreateAction).GetObject().(*core.Event)
				if wrong := validation.IsDNS1123Subdomain(event.Name); len(wrong) > 0 {
					t.Errorf("the name %q: %s", event.Name, wrong)
				}
				return true, nil, tt.err
			})
			n.start()
			n.until("the event", func() bool { return tried.Load() > 0 })
			time.Sleep(9 * time.Second) // four more looks
			if got := tried.Load(); got < tt.least || got > tt.most {
				t.Errorf("it was tried %d times", got)
			}
		})
	}
}

// A client that does nothing more loses its connection: any pod of the cluster may make some.
func TestAnIdleClient(t *testing.T) {
	n := newNode(t)
	n.start()
	n.register()
	conn, err := net.Dial("tcp", n.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /livez HTTP/1.1\r\nHost: n1\r\n\r\n")
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(conn); err != nil || !strings.Contains(string(text), "200 OK") {
		t.Errorf("%q, %v", text, err)
	}
}

// A program is ready while it publishes disks and looks after them, and is started again once
// a look does not end.
func TestProbes(t *testing.T) {
	ago := func(age time.Duration) time.Time { return time.Now().Add(-age) }
	for _, tt := range []struct {
		what          string
		activity      driver.Activity
		began         time.Time
		unready, dead string
	}{
		{"it works", driver.Activity{Published: true, Looked: ago(time.Second), Succeeded: ago(time.Second)}, ago(time.Hour), "", ""},
		{"it has just begun", driver.Activity{}, ago(time.Second), "no disks are published yet", ""},
		{"publishing fails", driver.Activity{Looked: ago(time.Second)}, ago(time.Hour), "no disks are published yet", ""},
		{"the first look goes on", driver.Activity{Published: true}, ago(time.Second), "no look at disks and pods has ended without an error yet", ""},
		{"looks fail", driver.Activity{Published: true, Looked: ago(time.Second), Succeeded: ago(61 * time.Second)}, ago(time.Hour), "the last look without an error was 1m1s ago", ""},
		{"a look does not end", driver.Activity{Published: true, Looked: ago(3 * time.Minute), Succeeded: ago(3 * time.Minute)}, ago(time.Hour), "the last look without an error was 3m0s ago", "was 3m0s ago"},
		{"the first look does not end", driver.Activity{}, ago(3 * time.Minute), "no disks are published yet", "was 3m0s ago"},
	} {
		s := &server{activity: func(context.Context) driver.Activity { return tt.activity }, looked: func() time.Time { return tt.activity.Looked }, began: tt.began}
		if got := s.unready(t.Context()); got != "kubelet has not registered the plugin yet" {
			t.Errorf("%s, without a registration: %q", tt.what, got)
		}
		s.runs(func() bool { return true })
		if unready, dead := s.unready(t.Context()), s.dead(t.Context()); !strings.Contains(unready, tt.unready) || (unready == "") != (tt.unready == "") || !strings.Contains(dead, tt.dead) || (dead == "") != (tt.dead == "") {
			t.Errorf("%s: unready %q, dead %q", tt.what, unready, dead)
		}
	}
	answer := httptest.NewRecorder()
	web.Probe(func(context.Context) string { return "why" })(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil))
	if answer.Code != http.StatusServiceUnavailable || answer.Body.String() != "why\n" {
		t.Errorf("%d %q", answer.Code, answer.Body)
	}
}

// A node that publishes nothing is not ready, though kubelet has registered the plugin.
func TestNotPublished(t *testing.T) {
	for what, tt := range map[string]struct {
		verb, resource string
		args           []string
	}{
		"slices": {"create", "resourceslices", nil}, "a number": {"patch", "nodes", []string{"--extended-resource"}},
	} {
		t.Run(what, func(t *testing.T) {
			n := newNode(t)
			var tried atomic.Int32
			n.cluster.PrependReactor(tt.verb, tt.resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				tried.Add(1)
				return true, nil, errors.New("no")
			})
			n.start(tt.args...)
			if tt.args == nil {
				n.register()
			}
			n.until("publishing fails", func() bool { return tried.Load() > 1 })
			if code := n.get("/healthz"); code != http.StatusServiceUnavailable {
				t.Errorf("/healthz: %d", code)
			}
			if code := n.get("/livez"); code != http.StatusOK {
				t.Errorf("/livez: %d", code)
			}
		})
	}
}

// A disk that could not be enabled keeps nothing from running: an event of the node and a
// metric tell of it, until it is enabled.
func TestADiskThatCannotBeEnabled(t *testing.T) {
	n := newNode(t)
	n.put("sys/block/nvme0n1/device/serial", "S4")
	lacks := func(count int) func() bool {
		return func() bool {
			return strings.Contains(n.metrics(), fmt.Sprintf("\nisolio_node_disks_not_enabled %d\n", count))
		}
	}
	for file, disks := range map[string][]state.EnableError{
		"sda":    {{Device: "sda", Why: "there is no module for kernel 6.1.0"}, {Device: "serial:S4", Why: "it is enabled now"}},
		"nosuch": {{Device: "nosuch", Why: "device nosuch: there is none"}},
	} {
		if err := state.WriteEnableErrors(filepath.Join(n.root, "run/isolio/enable", file), disks); err != nil {
			t.Fatal(err)
		}
	}
	n.start("--failures", "/run/isolio/enable/sda", "--failures", "/run/isolio/enable/nosuch", "--failures", "/run/isolio/enable/other")
	n.kubelet()
	n.until("the metric", lacks(2))
	want := []string{
		"n1 DiskNotEnabled disk nosuch is not shared by weight: device nosuch: there is none; to do once that is mended: kubectl isolio enable n1 nosuch",
		"n1 DiskNotEnabled disk sda is not shared by weight: there is no module for kernel 6.1.0; to do once that is mended: kubectl isolio enable n1 sda",
	}
	n.until("the events", func() bool { return slices.Equal(n.events(), want) })
	list, err := n.cluster.CoreV1().Events("default").List(context.Background(), meta.ListOptions{})
	if err != nil || len(list.Items) != 2 || list.Items[0].InvolvedObject.Kind != "Node" || list.Items[0].InvolvedObject.UID != "n1" {
		t.Errorf("%+v, %v", list, err)
	}
	n.put("sys/block/sda/queue/scheduler", "none [kyber-fairness]")
	n.until("the metric, after sda was enabled", lacks(1))
}
