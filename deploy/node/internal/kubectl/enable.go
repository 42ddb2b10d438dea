// SPDX-License-Identifier: MIT

package kubectl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"isolio/internal/cli"
	"isolio/internal/failure"
)

func (p *plugin) enable() *cobra.Command {
	var dryRun bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "enable NODE DISK",
		Short: "Have a disk of a node shared by weight, until the node boots",
		Long: `Run 'isolio enable DISK' on a node, in a privileged pod that ends with it, with the image and
the modules of the DaemonSet isolio-node. The node offers the disk some seconds later. For good, put the
disk into the chart's value disks.`,
		Example: `  kubectl isolio enable worker-1 nvme1n1
  kubectl isolio enable worker-1 nvme1n1 --dry-run`,
		Args: cli.Exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return failure.Usagef("--timeout: %s; allowed: more than 0", timeout)
			}
			if strings.HasPrefix(args[1], "-") || strings.ContainsAny(args[1], " \t\n") || args[1] == "" {
				return failure.Usagef("disk %q: is not a name; allowed: a disk of the node, such as nvme1n1", args[1])
			}
			if err := p.connect(); err != nil {
				return err
			}
			pod, err := p.enabler(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if dryRun {
				text, err := yaml.Marshal(pod)
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return p.carry(ctx, pod, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the pod as YAML; change nothing")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to wait for it, a `TIME` such as 1m")
	return cmd
}

// directory is where an image has modules, unless the DaemonSet says another one.
const directory = "/opt/lib/modules"

// enabler is the pod that does it.
func (p *plugin) enabler(ctx context.Context, node, disk string) (*core.Pod, error) {
	if _, err := p.client.CoreV1().Nodes().Get(ctx, node, meta.GetOptions{}); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, failure.Usagef("node %s: there is none; allowed: one of `kubectl get nodes`", node)
		}
		return nil, err
	}
	set, err := p.client.AppsV1().DaemonSets(p.system).Get(ctx, "isolio-node", meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, failure.Usagef("namespace %s: has no DaemonSet isolio-node; --system-namespace says where isolio is installed", p.system)
	}
	if err != nil {
		return nil, err
	}
	spec := &set.Spec.Template.Spec
	if len(spec.Containers) == 0 {
		return nil, fmt.Errorf("the DaemonSet isolio-node in %s has no container", p.system)
	}
	like, modules := spec.Containers[0], directory
	for _, c := range spec.InitContainers {
		if i := slices.Index(c.Command, "--module"); i >= 0 && i+1 < len(c.Command) {
			modules = c.Command[i+1]
		}
	}
	yes, no := true, false
	kind := core.HostPathDirectoryOrCreate
	return &core.Pod{
		TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: meta.ObjectMeta{
			GenerateName: "isolio-enable-", Namespace: p.system,
			Labels: map[string]string{"app.kubernetes.io/name": "isolio-enable"},
		},
		Spec: core.PodSpec{
			NodeName: node, RestartPolicy: core.RestartPolicyNever, AutomountServiceAccountToken: &no, ImagePullSecrets: spec.ImagePullSecrets,
			Tolerations: []core.Toleration{{Operator: core.TolerationOpExists}},
			Containers: []core.Container{{
				Name: "enable", Image: like.Image, ImagePullPolicy: like.ImagePullPolicy,
				Command:                  []string{"/usr/bin/isolio", "enable", disk, "--module", modules},
				SecurityContext:          &core.SecurityContext{Privileged: &yes},
				TerminationMessagePolicy: core.TerminationMessageFallbackToLogsOnError,
				VolumeMounts:             []core.VolumeMount{{Name: "run-isolio", MountPath: "/run/isolio"}, {Name: "lib-modules", MountPath: "/lib/modules", ReadOnly: true}, {Name: "sys", MountPath: "/sys"}, {Name: "udev", MountPath: "/run/udev/data", ReadOnly: true}},
			}},
			Volumes: []core.Volume{
				{Name: "run-isolio", VolumeSource: core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/run/isolio", Type: &kind}}},
				{Name: "lib-modules", VolumeSource: core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/lib/modules"}}},
				// The runtime mounts a pod's own /sys read-only, and then it is so for all of its containers.
				{Name: "sys", VolumeSource: core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/sys"}}},
				// What a serial number of a disk is read from, which the kernel does not tell of all disks.
				{Name: "udev", VolumeSource: core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: "/run/udev/data", Type: &kind}}},
			},
		},
	}, nil
}

// pause is the time between two looks at the pod.
const pause = 200 * time.Millisecond

// carry runs the pod, prints what it printed, and removes it.
func (p *plugin) carry(ctx context.Context, pod *core.Pod, out io.Writer) error {
	pods := p.client.CoreV1().Pods(pod.Namespace)
	made, err := pods.Create(ctx, pod, meta.CreateOptions{})
	if err != nil {
		return err
	}
	defer func() {
		// Also after an interrupt: the pod is this command's.
		_ = pods.Delete(context.WithoutCancel(ctx), made.Name, meta.DeleteOptions{})
	}()
	for {
		now, err := pods.Get(ctx, made.Name, meta.GetOptions{})
		if err != nil {
			return err
		}
		switch now.Status.Phase {
		case core.PodSucceeded:
			text, err := pods.GetLogs(made.Name, &core.PodLogOptions{}).DoRaw(ctx)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(out, strings.TrimSpace(string(text)))
			return err
		case core.PodFailed:
			return fmt.Errorf("node %s: %s", pod.Spec.NodeName, said(now))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %s: pod %s/%s is %s still: %w; %s", pod.Spec.NodeName, pod.Namespace, made.Name, now.Status.Phase, ctx.Err(), said(now))
		case <-time.After(pause):
		}
	}
}

// said is what a pod's container left, or what keeps it.
func said(pod *core.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		switch {
		case s.State.Terminated != nil && s.State.Terminated.Message != "":
			return strings.TrimSpace(strings.TrimPrefix(s.State.Terminated.Message, "isolio: "))
		case s.State.Terminated != nil:
			return fmt.Sprintf("it ended with code %d", s.State.Terminated.ExitCode)
		case s.State.Waiting != nil:
			return strings.TrimSpace(s.State.Waiting.Reason + " " + s.State.Waiting.Message)
		}
	}
	return strings.TrimSpace("it says nothing " + pod.Status.Message)
}
