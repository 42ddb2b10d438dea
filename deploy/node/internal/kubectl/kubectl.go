// SPDX-License-Identifier: MIT

// Package kubectl is `kubectl isolio`: which disks a cluster has, what pods were given of
// them, and why a pod has its weight.
package kubectl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	core "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"isolio/deploy/node/internal/disk"
	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/printable"
)

// Run executes one command line and returns its exit code, as cli.Run does.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cli.Run(ctx, New(nil, nil), args, stdin, printable.Writer(stdout), printable.Writer(stderr))
}

// plugin is what all commands have.
type plugin struct {
	client                                 kubernetes.Interface
	objects                                dynamic.Interface
	kubeconfig, context, namespace, system string
	// ask gets a page from a pod of the namespace of isolio, at a port of the pod's loopback.
	ask func(ctx context.Context, pod string, port int, path string) ([]byte, error)
}

// New is the command. Clients are a test's, nil for those of the user's configuration.
func New(client kubernetes.Interface, objects dynamic.Interface) *cobra.Command {
	return command(&plugin{client: client, objects: objects})
}

func command(p *plugin) *cobra.Command {
	root := cli.Root(&cobra.Command{
		Use:   "kubectl-isolio",
		Short: "Shares of disks in a cluster",
		Long: `Show which disks of a cluster are shared by weight, what pods were given of them, and why a
pod has its weight.

Exit codes: 0 done, 1 failed, 2 bad input, 3 not supported here.`,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl isolio"},
	}, p.status(), p.explain(), p.enable())
	set := root.PersistentFlags()
	set.StringVar(&p.kubeconfig, "kubeconfig", "", "how to reach the cluster, by `FILE`; left out, as kubectl does")
	set.StringVar(&p.context, "context", "", "the `NAME` of the context in that file")
	set.StringVarP(&p.namespace, "namespace", "n", "", "the `NAME` of the namespace of pods")
	set.StringVar(&p.system, "system-namespace", "isolio-system", "the `NAME` of the namespace that isolio is installed in")
	return root
}

// requestsPerSecond and requestBurst are kubectl's. By client-go's default, 5 a second, the
// volumes of 500 nodes would take more than a minute.
const (
	requestsPerSecond = 50
	requestBurst      = 300
)

// connect reaches the cluster.
func (p *plugin) connect() error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = p.kubeconfig
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: p.context})
	if p.namespace == "" {
		p.namespace = meta.NamespaceDefault
		if name, _, err := config.Namespace(); err == nil && p.client == nil {
			p.namespace = name
		}
	}
	if p.client != nil {
		return nil
	}
	to, err := config.ClientConfig()
	if err != nil {
		return failure.Usagef("kubeconfig: %w", err)
	}
	to.QPS, to.Burst = requestsPerSecond, requestBurst
	if p.client, err = kubernetes.NewForConfig(to); err != nil {
		return err
	}
	p.ask = func(ctx context.Context, pod string, port int, path string) ([]byte, error) {
		at := p.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.system).Name(pod).SubResource("portforward").URL()
		return forwarded(ctx, to, at, port, path)
	}
	p.objects, err = dynamic.NewForConfig(to)
	return err
}

// Disk is a disk of the cluster.
type Disk struct {
	Node      string `json:"node"`
	Device    string `json:"device"`
	Name      string `json:"name"`
	Model     string `json:"model,omitempty"`
	SizeBytes int64  `json:"size_bytes"`
	Kubelet   bool   `json:"kubelet"`
	// Given are the shares that claims have of it.
	Given int    `json:"given"`
	Left  int    `json:"left"`
	Has   []Part `json:"claims,omitempty"`
	// device is what selectors see of it.
	device *resourceapi.Device
}

// Part is what a claim has of a disk.
type Part struct {
	Namespace string   `json:"namespace"`
	Claim     string   `json:"claim"`
	Pods      []string `json:"pods,omitempty"`
	Share     int      `json:"share"`
}

// disks are those that nodes offer, with what claims have of them.
func (p *plugin) disks(ctx context.Context) ([]Disk, error) {
	offered, err := p.client.ResourceV1().ResourceSlices().List(ctx, meta.ListOptions{FieldSelector: "spec.driver=" + disk.Driver})
	if apierrors.IsNotFound(err) {
		return nil, failure.Unsupportedf("this cluster has no ResourceSlices, which came with Kubernetes 1.34; `kubectl describe node` shows isolio.dev/disk-share")
	}
	if err != nil {
		return nil, err
	}
	claims, err := p.client.ResourceV1().ResourceClaims("").List(ctx, meta.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []Disk
	for i := range offered.Items {
		s := &offered.Items[i].Spec
		if s.Driver != disk.Driver {
			continue
		}
		for j := range s.Devices {
			d := &s.Devices[j]
			one := Disk{Node: s.Pool.Name, Device: d.Name, Name: d.Name, device: d}
			if a := d.Attributes["name"].StringValue; a != nil {
				one.Name = *a
			}
			if a := d.Attributes["model"].StringValue; a != nil {
				one.Model = *a
			}
			if a := d.Attributes["sizeBytes"].IntValue; a != nil {
				one.SizeBytes = *a
			}
			if a := d.Attributes["kubelet"].BoolValue; a != nil {
				one.Kubelet = *a
			}
			for j := range claims.Items {
				if part, ok := partOf(&claims.Items[j], one); ok {
					one.Has = append(one.Has, part)
					one.Given += part.Share
				}
			}
			offered := d.Capacity[disk.Share].Value
			one.Left = max(int(offered.Value())-one.Given, 0)
			all = append(all, one)
		}
	}
	slices.SortFunc(all, func(a, b Disk) int { return strings.Compare(a.Node+"\x00"+a.Name, b.Node+"\x00"+b.Name) })
	return all, nil
}

// partOf is what a claim has of a disk; administrative access is no part.
func partOf(c *resourceapi.ResourceClaim, d Disk) (Part, bool) {
	if c.Status.Allocation == nil {
		return Part{}, false
	}
	part := Part{Namespace: c.Namespace, Claim: c.Name}
	for _, r := range c.Status.Allocation.Devices.Results {
		if n, ok := r.ConsumedCapacity[disk.Share]; ok && r.Driver == disk.Driver && r.Pool == d.Node && r.Device == d.Device && !disk.IsForAdmin(r) {
			part.Share += int(n.Value())
		}
	}
	for _, user := range c.Status.ReservedFor {
		part.Pods = append(part.Pods, user.Name)
	}
	return part, part.Share > 0
}

// size is a number of bytes for a reader.
func size(n int64) string {
	const step = 1000
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	f, i := float64(n), 0
	for f >= step && i < len(units)-1 {
		f, i = f/step, i+1
	}
	return fmt.Sprintf("%.3g %s", f, units[i])
}

// podOf is a pod, by its name or as NAMESPACE/NAME.
func (p *plugin) podOf(ctx context.Context, word string) (*core.Pod, error) {
	namespace, name, ok := strings.Cut(word, "/")
	if !ok {
		namespace, name = p.namespace, word
	}
	pod, err := p.client.CoreV1().Pods(namespace).Get(ctx, name, meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, failure.Usagef("pod %s/%s: there is none; allowed: a pod's name, with -n NAMESPACE, or NAMESPACE/NAME", namespace, name)
	}
	return pod, err
}
