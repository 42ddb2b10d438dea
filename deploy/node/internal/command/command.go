// SPDX-License-Identifier: MIT

// Package command is the program isolio-node: it reads arguments, and has the driver run
// beside kubelet.
package command

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"sigs.k8s.io/yaml"

	"isolio/deploy/node/internal/disk"
	"isolio/deploy/node/internal/driver"
	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/web"
	"isolio/internal/printable"
)

// Run executes one command line and returns its exit code, as cli.Run does.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Run(ctx, New(nil, nil), args, stdin, printable.Writer(stdout), printable.Writer(stderr))
}

type flags struct {
	root, node, kubeconfig, kubelet, mounts, rules, listen, listenPods string
	failures                                                           []string
	extended, classes, dryRun                                          bool
	client                                                             kubernetes.Interface
	objects                                                            dynamic.Interface
}

// New is the command. Clients are a test's, nil for those of the cluster.
func New(client kubernetes.Interface, objects dynamic.Interface) *cobra.Command {
	f := flags{client: client, objects: objects}
	cmd := cli.Root(&cobra.Command{
		Use:   "isolio-node",
		Short: "Offer a node's disks to Kubernetes, and give pods the shares that they claim",
		Long: `Offer each disk of a node that has the scheduler kyber-fairness as a device with 900 of its 1000 shares,
by Kubernetes' dynamic resource allocation. What a pod's claim was given is kept in
/` + state.ClaimsFile + `, where the daemon isolio reads it: the share is the pod's weight on that
disk, and pods without a claim share what is left. The authors of pods are told by Events of
annotations that are no weight, of claims on a disk that none of their volumes lies on, and of
volumes on a disk that is not shared by weight, if they ask for a part of one.
An Event DiskNotEnabled of the node tells of a disk that was to get the scheduler and did not.

It is made to be run by a DaemonSet, beside the daemon, as root without any capability. It
can be killed at any moment: what it knows is in that file and in the API server.

--dry-run prints the devices that it would offer, and asks no cluster.

Exit codes: 0 done, 1 failed, 2 bad input, 3 not supported here.`,
		Example: `  isolio-node --node worker-1
  isolio-node --node worker-1 --dry-run`,
	})
	cmd.Args = cli.Exactly(0)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }
	set := cmd.Flags()
	cli.RootFlag(cmd, &f.root)
	set.StringVar(&f.node, "node", os.Getenv("NODE_NAME"), "the `NAME` of this node in the cluster; left out, the variable NODE_NAME")
	set.StringVar(&f.kubeconfig, "kubeconfig", "", "how to reach the API server, by `FILE`; left out, as any pod does")
	set.StringVar(&f.kubelet, "kubelet-dir", "/var/lib/kubelet", "the kubelet's `DIR`")
	set.StringVar(&f.mounts, "mounts", "/proc/1/mountinfo", "the `FILE` with what is mounted on the node")
	set.StringVar(&f.rules, "config", "", "the daemon's rules are in `FILE`, not "+rule.File)
	set.StringVar(&f.listen, "listen", "", "serve /healthz, /livez and Prometheus metrics on /metrics at `HOST:PORT`; left out, nothing")
	set.StringVar(&f.listenPods, "listen-pods", "", "tell of the node's pods and their volumes on /pods at `ADDRESS:PORT`, an address of the loopback; left out, nowhere")
	set.StringArrayVar(&f.failures, "failures", nil, "tell of the disks that isolio enable --error-file wrote to `FILE`; may be given several times")
	set.BoolVar(&f.extended, "extended-resource", false, "offer "+string(driver.ExtendedResource)+" in place of devices: for clusters before Kubernetes 1.34")
	set.BoolVar(&f.classes, "disk-share-classes", false, "pods may name a DiskShareClass of the cluster in the annotation "+rule.ClassAnnotation)
	set.BoolVar(&f.dryRun, "dry-run", false, "print what would be offered, as YAML, and end")
	return cmd
}

func (f *flags) check() (err error) {
	if f.root, err = cli.RootDir(f.root); err != nil {
		return err
	}
	for flag, value := range map[string]string{"--kubelet-dir": f.kubelet, "--mounts": f.mounts} {
		if !filepath.IsAbs(value) {
			return failure.Usagef("%s: %q; allowed: a path from / on", flag, value)
		}
	}
	for _, file := range f.failures {
		if !filepath.IsAbs(file) {
			return failure.Usagef("--failures: %q; allowed: a path from / on", file)
		}
	}
	if length := len(filepath.Join("/", f.root, f.kubelet)); !f.extended && length > longestKubelet {
		return failure.Usagef("--kubelet-dir: %q has %d bytes, with --root; allowed: at most %d, since the path of a socket has at most %d", f.kubelet, length, longestKubelet, longestSocket)
	}
	if f.node == "" {
		return failure.Usagef("--node: is missing; allowed: the node's name, as `kubectl get nodes` has it")
	}
	if f.listen != "" {
		if _, _, err := net.SplitHostPort(f.listen); err != nil {
			return failure.Usagef("--listen: %q; allowed: HOST:PORT, such as :9106", f.listen)
		}
	}
	if f.listenPods != "" {
		host, _, err := net.SplitHostPort(f.listenPods)
		if ip := net.ParseIP(host); err != nil || !ip.IsLoopback() {
			return failure.Usagef("--listen-pods: %q; allowed: an address of the loopback with a port, such as 127.0.0.1:9107, since all may read what is there", f.listenPods)
		}
	}
	if f.rules != "" {
		if f.rules, err = cli.Absolute(f.rules); err != nil {
			return err
		}
	}
	return nil
}

func (f *flags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, fatal := context.WithCancelCause(cmd.Context())
	defer fatal(nil)
	d := &driver.Driver{
		Root: f.root, Node: f.node, KubeletDir: f.kubelet, Mounts: f.mounts, Rules: f.rules, Failures: f.failures, Extended: f.extended,
		Log: slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)), Fatal: fatal,
	}
	if f.dryRun {
		return preview(cmd.OutOrStdout(), d, f.extended)
	}
	if err := f.connect(d); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d.Metrics = driver.NewMetrics(registry)
	s := &server{registry: registry, pods: d.Pods, activity: d.Activity, looked: d.Looked, began: time.Now()}
	for flag, at := range map[string]struct {
		address string
		handler http.Handler
	}{"--listen": {f.listen, s.handler()}, "--listen-pods": {f.listenPods, s.podsHandler()}} {
		if at.address == "" {
			continue
		}
		if err := serve(ctx, at.address, at.handler); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	var err error
	if f.extended {
		s.runs(func() bool { return true })
		err = d.Run(ctx, extended{d})
	} else {
		err = f.beside(ctx, d, s)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// beside runs the driver as a plugin of kubelet.
func (f *flags) beside(ctx context.Context, d *driver.Driver, s *server) error {
	if err := offers(ctx, d); err != nil {
		return err
	}
	kubelet := filepath.Join("/", f.root, f.kubelet)
	data := filepath.Join(kubelet, plugins, disk.Driver)
	if err := os.MkdirAll(data, 0o750); err != nil {
		return err
	}
	if err := sweep(ctx, kubelet); err != nil {
		return err
	}
	// Kubelet removes the node's ResourceSlices 30 s after an earlier process went, so
	// registration waits for the API server only where the node has lost what pods were given.
	if d.Lost() {
		if err := d.Look(ctx, nil); err != nil {
			d.Log.ErrorContext(ctx, "look", "error", err.Error()) // the next one is after registration
		}
	}
	helper, err := kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(disk.Driver), kubeletplugin.NodeName(f.node), kubeletplugin.KubeClient(owning{d.Client}),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(kubelet, registrations)), kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RollingUpdate(types.UID(strings.ToLower(rand.Text()[:idLength]))))
	if err != nil {
		return fmt.Errorf("kubelet plugin: %w", err)
	}
	defer helper.Stop()
	s.runs(func() bool {
		status := helper.RegistrationStatus()
		return status != nil && status.PluginRegistered
	})
	return d.Run(ctx, &background{to: helper, failed: d.Fatal})
}

// background publishes without a wait: the first time, the library waits for an answer of the
// API server, without an end, and looks at disks and pods have to go on.
type background struct {
	to driver.Publisher
	// failed is called with an error after which nothing is published any more.
	failed func(error)

	mu   sync.Mutex
	busy bool
	// next is what is to be published after that which is being published, nil for nothing.
	next *resourceslice.DriverResources
}

// PublishResources has resources published, in place of those that wait for it.
func (b *background) PublishResources(ctx context.Context, resources resourceslice.DriverResources) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = &resources
	if !b.busy {
		b.busy = true
		go b.publish(ctx)
	}
	return nil
}

// publish publishes until there is nothing more.
func (b *background) publish(ctx context.Context) {
	for {
		b.mu.Lock()
		resources := b.next
		b.next = nil
		b.busy = resources != nil
		b.mu.Unlock()
		if resources == nil {
			return
		}
		if err := b.to.PublishResources(ctx, *resources); err != nil && ctx.Err() == nil {
			b.failed(fmt.Errorf("publish disks: %w", err))
		}
	}
}

// requestsPerSecond and requestBurst limit what one node asks of the API server. By
// client-go's default, 5 a second, a node with 110 pods would need more than 20 s to learn of
// them. These are kubelet's own limits, and the burst is about a full node.
const (
	requestsPerSecond = 50
	requestBurst      = 100
)

// connect reaches the cluster.
func (f *flags) connect(d *driver.Driver) error {
	d.Client, d.Objects = f.client, f.objects
	if f.client == nil {
		config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
		if errors.Is(err, rest.ErrNotInCluster) {
			return failure.Usagef("--kubeconfig: is missing, and this is not a pod of a cluster; allowed: a file, such as /etc/kubernetes/kubelet.conf")
		}
		if err != nil {
			return failure.Usagef("--kubeconfig: %w", err)
		}
		config.QPS, config.Burst = requestsPerSecond, requestBurst
		if d.Client, err = kubernetes.NewForConfig(config); err != nil {
			return err
		}
		if d.Objects, err = dynamic.NewForConfig(config); err != nil {
			return err
		}
	}
	if !f.classes {
		d.Objects = nil
	}
	return nil
}

// offersTime is how long the API server may take to say what it serves: kubelet waits for the
// plugin.
const offersTime = 5 * time.Second

// offers is an error where the cluster knows no claims. An API server that is away is none:
// kubelet takes claims back without it.
func offers(ctx context.Context, d *driver.Driver) error {
	group := resourceapi.SchemeGroupVersion.String()
	ctx, cancel := context.WithTimeout(ctx, offersTime)
	defer cancel()
	of := discovery.ToDiscoveryInterfaceWithContext(d.Client.Discovery())
	_, err := of.ServerResourcesForGroupVersionWithContext(ctx, group)
	if !apierrors.IsNotFound(err) {
		if err != nil {
			d.Log.WarnContext(ctx, "cluster", "warning", err.Error())
		}
		return nil
	}
	version := "of unknown version"
	if v, err := of.ServerVersionWithContext(ctx); err == nil {
		version = v.GitVersion
	}
	return failure.Unsupportedf("this cluster, Kubernetes %s, does not serve %s, which came with 1.34; use --extended-resource (in the chart: extendedResource=true)", version, group)
}

// patchTime is how long the patch of a node's status may take.
const patchTime = 10 * time.Second

// extended publishes a number for the whole node.
type extended struct{ d *driver.Driver }

// PublishResources writes the number into the node's status, where the scheduler counts it.
func (e extended) PublishResources(ctx context.Context, _ resourceslice.DriverResources) error {
	disks, err := e.d.Disks()
	if err != nil {
		return err
	}
	patch := nodePatch(disks)
	ctx, cancel := context.WithTimeout(ctx, patchTime) // a look may not wait for an API server that says nothing
	defer cancel()
	_, err = e.d.Client.CoreV1().Nodes().Patch(ctx, e.d.Node, types.StrategicMergePatchType, []byte(patch), meta.PatchOptions{}, "status")
	return err
}

// nodePatch offers the shares of the disk that has the fewest: a request counts on each.
func nodePatch(disks []disk.Disk) string {
	n, shared := state.SharesForSale, false
	for _, d := range disks {
		if d.Enabled() {
			n, shared = min(n, d.ForSale()), true
		}
	}
	if !shared {
		n = 0
	}
	return fmt.Sprintf(`{"status":{"capacity":{%q:"%d"},"allocatable":{%q:"%d"}}}`, driver.ExtendedResource, n, driver.ExtendedResource, n)
}

// preview prints what would be offered, and why other disks are not.
func preview(w io.Writer, d *driver.Driver, extended bool) error {
	disks, err := d.Disks()
	if err != nil {
		return err
	}
	for _, one := range disks {
		if !one.Enabled() {
			fmt.Fprintf(w, "# %s is not offered: its scheduler is %s; to do: isolio enable %s\n", one.Name, one.Scheduler, one.Name)
		} else if one.Unseen != "" {
			fmt.Fprintf(w, "# %s is not offered: %s\n", one.Name, one.Unseen)
		}
	}
	if extended {
		fmt.Fprintf(w, "# patch of the status of node %s\n%s\n", d.Node, nodePatch(disks))
		return nil
	}
	slice := resourceapi.ResourceSlice{
		TypeMeta: meta.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceSlice"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: disk.Driver, NodeName: &d.Node, Pool: resourceapi.ResourcePool{Name: d.Node, ResourceSliceCount: 1}, Devices: disk.Resources(disks),
		},
	}
	text, err := yaml.Marshal(slice)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// server serves health and metrics.
type server struct {
	registry *prometheus.Registry
	pods     func() driver.Pods
	activity func(ctx context.Context) driver.Activity
	looked   func() time.Time
	began    time.Time
	// ready is set when the driver runs.
	ready atomic.Pointer[func() bool]
}

// freshness is how old the last look without an error may be where the program is ready, and
// hung the age of the last look, with or without one, where it is to be started again. A look
// begins every 2 s, and waits half a minute at most.
const (
	freshness = time.Minute
	hung      = 2 * time.Minute
)

// unready is why the program is not ready, "" where it is.
func (s *server) unready(ctx context.Context) string {
	if ready := s.ready.Load(); ready == nil || !(*ready)() {
		return "kubelet has not registered the plugin yet"
	}
	switch a := s.activity(ctx); {
	case !a.Published:
		return "no disks are published yet; the log says why"
	case a.Succeeded.IsZero():
		return "no look at disks and pods has ended without an error yet; the log says why"
	case time.Since(a.Succeeded) > freshness:
		return fmt.Sprintf("the last look without an error was %s ago; the log says why", time.Since(a.Succeeded).Round(time.Second))
	}
	return ""
}

// dead is why the program is to be started again, "" where it is not.
func (s *server) dead(context.Context) string {
	last := s.looked()
	if last.Before(s.began) {
		last = s.began
	}
	if age := time.Since(last); age > hung {
		return fmt.Sprintf("the last look at disks and pods was %s ago", age.Round(time.Second))
	}
	return ""
}

func (s *server) runs(ready func() bool) { s.ready.Store(&ready) }

// handler tells kubelet and Prometheus what any pod may know: the node's disks, and how many shares
// of them are given.
func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	// The answer has a few kilobytes, and what compresses it takes a hundred times as much.
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{DisableCompression: true}))
	mux.HandleFunc("GET /healthz", web.Probe(s.unready))
	mux.HandleFunc("GET /livez", web.Probe(s.dead))
	return mux
}

// podsHandler tells of pods of all namespaces, and of their volumes. It is for those whom the API
// server lets forward a port of the pod, as kubectl isolio does.
func (s *server) podsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+driver.PodsPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.pods()) // the client may be gone
	})
	return mux
}

func serve(ctx context.Context, address string, handler http.Handler) error {
	listener, err := web.Listen(ctx, address)
	if err != nil {
		return err
	}
	server := web.Server(handler)
	context.AfterFunc(ctx, func() { server.Close() })
	go func() { _ = server.Serve(listener) }()
	return nil
}
