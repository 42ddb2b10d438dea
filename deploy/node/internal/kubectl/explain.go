// SPDX-License-Identifier: MIT

package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	core "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"isolio/deploy/node/internal/disk"
	"isolio/deploy/node/internal/driver"
	"isolio/internal/cli"
	"isolio/internal/host/policy"
	"isolio/internal/host/rule"
	"isolio/internal/host/state"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
	"isolio/internal/table"
)

func (p *plugin) explain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain POD",
		Short: "Show why a pod has its weight, or waits",
		Long: `Show what a pod says of its weight, what the cluster gave it, and what is decided of that by
the rules of the cluster. Events that isolio wrote about the pod are shown, too. What nodes have in rules
of their own is not known here: 'isolio explain NAMESPACE/POD' on the node tells all.`,
		Example: `  kubectl isolio explain web-0
  kubectl isolio explain shop/web-0`,
		Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.connect(); err != nil {
				return err
			}
			pod, err := p.podOf(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			rows, err := p.chain(cmd.Context(), pod)
			if err != nil {
				return err
			}
			node := pod.Spec.NodeName
			if node == "" {
				node = "no node yet"
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s/%s on %s\n", pod.Namespace, pod.Name, node)
			return table.Write(cmd.OutOrStdout(), []table.Column{{Head: "ABOUT"}, {Head: "WHAT"}}, rows)
		},
	}
}

// chain is what leads to a pod's weight, a reason a row.
func (p *plugin) chain(ctx context.Context, pod *core.Pod) ([][]string, error) {
	disks, err := p.disks(ctx)
	if err != nil {
		return nil, err
	}
	given := &state.PodClaims{UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}
	rows, err := p.claims(ctx, pod, disks, given)
	if err != nil {
		return nil, err
	}
	config, isKnown, err := p.rules(ctx)
	if err != nil {
		return nil, err
	}
	said, err := p.defaultOf(ctx, pod, given, config)
	if err != nil {
		return nil, err
	}
	rows = append(rows, said...)
	decided, err := p.decided(pod, given, config)
	if err != nil {
		return nil, err
	}
	if !isKnown {
		decided = append(decided, []string{"rules", "not known: there is no ConfigMap isolio-rules in " + p.system + " that you may read"})
	}
	rows = append(rows, decided...)
	events, err := p.client.CoreV1().Events(pod.Namespace).List(ctx, meta.ListOptions{FieldSelector: "involvedObject.name=" + pod.Name})
	if err != nil {
		return nil, err
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.InvolvedObject.UID == pod.UID && e.Source.Component == driver.Component {
			rows = append(rows, []string{"event", e.Reason + ": " + e.Message})
		}
	}
	return rows, nil
}

// claims tells what the pod's claims have, and why those that wait have nothing.
func (p *plugin) claims(ctx context.Context, pod *core.Pod, disks []Disk, given *state.PodClaims) ([][]string, error) {
	var rows [][]string
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			rows = append(rows, []string{"claim", err.Error()})
		}
		if err != nil || name == nil {
			continue
		}
		c, err := p.client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, *name, meta.GetOptions{})
		if apierrors.IsNotFound(err) {
			rows = append(rows, []string{"claim", *name + " is not there yet"})
			continue
		}
		if err != nil {
			return nil, err
		}
		if c.Status.Allocation == nil {
			text, err := p.waits(ctx, c, disks)
			if err != nil {
				return nil, err
			}
			if text != "" {
				rows = append(rows, []string{"claim", text})
			}
			continue
		}
		for _, d := range disks {
			part, ok := partOf(c, d)
			if !ok {
				continue
			}
			n := part.Share / max(len(part.Pods), 1)
			text := fmt.Sprintf("%s: %d of %d shares of %s on %s", c.Name, part.Share, state.WholeDisk, d.Name, d.Node)
			switch {
			case n == 0:
				text += fmt.Sprintf(", which %d pods have together: 1 for the first %d of them", len(part.Pods), part.Share)
			case len(part.Pods) > 1:
				text += fmt.Sprintf(", which %d pods have together: %d", len(part.Pods), n)
			}
			rows = append(rows, []string{"claim", text})
			// Here disks have no numbers: their names stand for those.
			given.Shares = append(given.Shares, state.ClaimedShare{Claim: c.Name, ClaimUID: string(c.UID), Device: d.Device, Disk: d.Name, MajMin: d.Name, Claimed: part.Share, Share: n})
		}
	}
	if rows == nil {
		rows = [][]string{{"claim", "none: unclaimed pods share what claims leave"}}
	}
	return rows, nil
}

// waits is why a claim has nothing yet; "" for a claim that is not for a disk.
func (p *plugin) waits(ctx context.Context, c *resourceapi.ResourceClaim, disks []Disk) (string, error) {
	for _, r := range c.Spec.Devices.Requests {
		if r.Exactly == nil {
			continue
		}
		// A class by another name is one for disks if it takes any.
		ours := r.Exactly.DeviceClassName == disk.Driver || strings.HasSuffix(r.Exactly.DeviceClassName, "."+disk.Driver)
		asked := int64(weight.Default)
		if r.Exactly.Capacity != nil {
			if n, ok := r.Exactly.Capacity.Requests[disk.Share]; ok {
				asked = n.Value()
			}
		}
		text := fmt.Sprintf("%s waits: it asks for %d shares of a disk of class %s", c.Name, asked, r.Exactly.DeviceClassName)
		if len(disks) == 0 && ours {
			return text + ", and no node offers a disk; to do: kubectl isolio enable NODE DISK", nil
		}
		class, err := p.client.ResourceV1().DeviceClasses().Get(ctx, r.Exactly.DeviceClassName, meta.GetOptions{})
		switch {
		case !ours && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err)):
			continue
		case apierrors.IsNotFound(err):
			return text + ", and there is no such class; to do: kubectl get deviceclasses", nil
		case apierrors.IsForbidden(err):
			class = &resourceapi.DeviceClass{} // then the claim's own selectors tell what they can
		case err != nil:
			return "", err
		}
		fit, err := suitable(ctx, class.Spec.Selectors, disks)
		if !ours && (err != nil || len(fit) == 0) {
			continue
		}
		if err == nil {
			fit, err = suitable(ctx, r.Exactly.Selectors, fit)
		}
		if err != nil {
			return fmt.Sprintf("%s, and %v", text, err), nil
		}
		if len(fit) == 0 {
			return fmt.Sprintf("%s, and the selectors of the class or the claim take none of the %d disks that nodes offer; to do: kubectl isolio enable NODE DISK for one that they take", text, len(disks)), nil
		}
		most := slices.MaxFunc(fit, func(a, b Disk) int { return a.Left - b.Left })
		text += fmt.Sprintf("; the most are left of %s on %s: %d", most.Name, most.Node, most.Left)
		if int64(most.Left) >= asked {
			text += ", so another need of the pod keeps it away from that node"
		}
		return text, nil
	}
	return "", nil
}

// suitable are the disks that all selectors take, as Kubernetes' scheduler evaluates them.
func suitable(ctx context.Context, selectors []resourceapi.DeviceSelector, disks []Disk) ([]Disk, error) {
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true})
	fit := slices.Clone(disks)
	for _, s := range selectors {
		if s.CEL == nil {
			continue
		}
		expr := compiler.CompileCELExpression(s.CEL.Expression, cel.Options{DisableCostEstimation: true})
		if expr.Error != nil {
			return nil, fmt.Errorf("the selector %q is none: %w", s.CEL.Expression, expr.Error)
		}
		var left []Disk
		for _, d := range fit {
			ok, _, err := expr.DeviceMatches(ctx, cel.Device{
				Driver: disk.Driver, AllowMultipleAllocations: d.device.AllowMultipleAllocations, Attributes: d.device.Attributes, Capacity: d.device.Capacity,
			})
			if err != nil {
				return nil, fmt.Errorf("the selector %q fails with %s on %s: %w", s.CEL.Expression, d.Name, d.Node, err)
			}
			if ok {
				left = append(left, d)
			}
		}
		fit = left
	}
	return fit, nil
}

// rules are those of the cluster; false where they cannot be read.
func (p *plugin) rules(ctx context.Context) (rule.Config, bool, error) {
	text, err := p.client.CoreV1().ConfigMaps(p.system).Get(ctx, "isolio-rules", meta.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return rule.Config{}, false, nil
	}
	if err != nil {
		return rule.Config{}, false, err
	}
	config, err := rule.Parse("isolio-rules", []byte(text.Data["isolio.toml"]))
	return config, true, err
}

// defaultOf finds the weight that the cluster gives a pod that asks for none, and tells what
// of that is wrong.
func (p *plugin) defaultOf(ctx context.Context, pod *core.Pod, given *state.PodClaims, config rule.Config) (rows [][]string, err error) {
	from := driver.Defaults{Client: p.client, Objects: p.objects, Knows: config.Knows}
	refuse := func(reason, text string) {
		about := "default"
		if reason == driver.BadClass {
			about = "class"
		}
		rows = append(rows, []string{about, text})
	}
	given.Default, given.Why, err = from.Of(ctx, pod, refuse)
	if apierrors.IsForbidden(err) && p.objects != nil {
		rows = append(rows, []string{"class", "not known: you may not read " + driver.ShareClasses.Resource})
		from.Objects = nil
		given.Default, given.Why, err = from.Of(ctx, pod, refuse)
	}
	return rows, err
}

// decided is what the rules of the cluster make of it, as the daemon decides.
func (p *plugin) decided(pod *core.Pod, given *state.PodClaims, config rule.Config) ([][]string, error) {
	// The names of the groups are only for this decision.
	group := "kubepods/pod" + string(pod.UID)
	c := target.Container{ID: "pod", Namespace: pod.Namespace, Pod: pod.Name, PodUID: string(pod.UID), Sandbox: true, Labels: pod.Labels, Annotations: pod.Annotations, Cgroup: group + "/pod", Given: given}
	m := policy.New(config, nil, []target.Container{c})
	var rows [][]string
	if refused := m.RefusedOf(group); refused != "" {
		rows = append(rows, []string{"refused", refused})
	}
	wants, _, err := m.Wants(group, func(string, string) (weight.Values, bool, error) { return weight.Values{}, false, nil })
	if err != nil {
		return nil, err
	}
	if _, ok := wants[policy.EveryDisk]; !ok {
		rows = append(rows, []string{"weight", fmt.Sprintf("%d: no weight is asked for", weight.Default)})
	}
	var on []string
	for name := range wants {
		on = append(on, name)
	}
	slices.SortFunc(on, func(a, b string) int {
		if a == policy.EveryDisk {
			return -1
		}
		if b == policy.EveryDisk {
			return 1
		}
		return strings.Compare(a, b)
	})
	for _, name := range on {
		what := wants[name].Source()
		if name != policy.EveryDisk {
			what = "on " + name + ", " + what
		}
		rows = append(rows, []string{"weight", fmt.Sprintf("%s: %s", wants[name].Weight, what)})
	}
	return rows, nil
}
