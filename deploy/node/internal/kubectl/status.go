// SPDX-License-Identifier: MIT

package kubectl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/table"
)

func (p *plugin) status() *cobra.Command {
	var pods, volumes, asJSON bool
	cmd := &cobra.Command{
		Use:   "status [NODE]",
		Short: "Show disks, how many of their shares are given, and to which pods",
		Long: `Show each disk that nodes offer, how many of its shares claims have, and how many of those for
sale are left. --pods shows the claims instead, one a line, with their pods. --volumes shows the volumes of each
pod, with their disks; it asks the pods of isolio-node as kubectl port-forward does, which takes the
verbs get and create on pods/portforward in their namespace. A disk that is not there is not shared by weight: 'kubectl isolio enable NODE DISK' changes
that. Below the disks it shows which could not be enabled, and why, by the Events of nodes.`,
		Example: `  kubectl isolio status
  kubectl isolio status worker-1 --pods
  kubectl isolio status worker-1 --volumes`,
		Args: cli.Between(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if pods && volumes {
				return failure.Usagef("--pods and --volumes: allowed: one of them")
			}
			if err := p.connect(); err != nil {
				return err
			}
			all, err := p.disks(cmd.Context())
			if err != nil {
				return err
			}
			lacks, err := p.lacks(cmd.Context(), all)
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "isolio: disks that could not be enabled are not shown: %s\n", err)
			}
			if len(args) > 0 {
				lacks = slices.DeleteFunc(lacks, func(l Lack) bool { return l.Node != args[0] })
				nodes := nodesOf(all)
				if !slices.Contains(nodes, args[0]) && len(lacks) == 0 {
					return failure.Usagef("node %s: offers no disk; those that do: %s", args[0], strings.Join(nodes, ", "))
				}
				all = slices.DeleteFunc(all, func(d Disk) bool { return d.Node != args[0] })
			}
			out := cmd.OutOrStdout()
			if volumes {
				return p.writeVolumes(cmd.Context(), out, all, args, asJSON)
			}
			switch {
			case asJSON:
				text := json.NewEncoder(out)
				text.SetIndent("", "  ")
				document := map[string]any{"schema": 1, "disks": all}
				if len(lacks) > 0 {
					document["not_enabled"] = lacks
				}
				return text.Encode(document)
			case pods && len(all) > 0:
				err = table.Write(out, podColumns, podRows(all))
			case len(all) > 0:
				err = table.Write(out, diskColumns, diskRows(all))
			case len(lacks) == 0:
				_, err = fmt.Fprintf(out, "no node offers a disk; kubectl -n %s get pods shows whether isolio runs\n", p.system)
			}
			for _, l := range lacks {
				fmt.Fprintf(out, "%s: %s\n", l.Node, l.Why)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&pods, "pods", false, "show claims and their pods")
	cmd.Flags().BoolVar(&volumes, "volumes", false, "show the volumes of pods, and the disks that they lie on")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return cmd
}

func nodesOf(all []Disk) []string {
	var nodes []string
	for _, d := range all {
		nodes = append(nodes, d.Node)
	}
	return slices.Compact(nodes)
}

var (
	diskColumns = []table.Column{{Head: "NODE"}, {Head: "DISK"}, {Head: "MODEL"}, {Head: "SIZE", Right: true}, {Head: "GIVEN", Right: true}, {Head: "LEFT", Right: true}, {Head: "CLAIMS", Right: true}, {Head: "KUBELET"}}
	podColumns  = []table.Column{{Head: "NODE"}, {Head: "DISK"}, {Head: "SHARES", Right: true}, {Head: "NAMESPACE"}, {Head: "CLAIM"}, {Head: "PODS"}}
)

func diskRows(all []Disk) [][]string {
	var rows [][]string
	for _, d := range all {
		kubelet := ""
		if d.Kubelet {
			kubelet = "yes"
		}
		rows = append(rows, []string{d.Node, d.Name, d.Model, size(d.SizeBytes), strconv.Itoa(d.Given), strconv.Itoa(d.Left), strconv.Itoa(len(d.Has)), kubelet})
	}
	return rows
}

func podRows(all []Disk) [][]string {
	var rows [][]string
	for _, d := range all {
		for _, part := range d.Has {
			rows = append(rows, []string{d.Node, d.Name, strconv.Itoa(part.Share), part.Namespace, part.Claim, strings.Join(part.Pods, ", ")})
		}
	}
	return rows
}
