// SPDX-License-Identifier: MIT

// Command cluster is Kubernetes in one program, for tests: called by the name of etcd,
// kube-apiserver, kube-scheduler, kube-controller-manager or kubelet it is that, of csi a
// CSI driver, by any other name kubectl. All of it is built from the Go modules that go.mod names.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controller "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	var c *cobra.Command
	switch filepath.Base(os.Args[0]) {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "csi":
		fmt.Fprintln(os.Stderr, "csi:", serveCSI())
		os.Exit(1)
	case "kube-apiserver":
		c = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		c = controller.NewControllerManagerCommand()
	case "kube-scheduler":
		c = scheduler.NewSchedulerCommand()
	case "kubelet":
		c = kubelet.NewKubeletCommand(context.Background())
	default:
		c = kubectl.NewDefaultKubectlCommand()
	}
	os.Exit(cli.Run(c))
}
