// SPDX-License-Identifier: MIT

// Command pods asks a container runtime for pods as a kubelet does, over CRI, in a VM that
// has no kubelet:
//
//	pods image NAME PROGRAM FILE  write an image of the program, as an archive
//	pods run SOCKET FILE          make the pod of the JSON file, start its container, print the container's ID
//	pods remove SOCKET NAME       stop the pod of that name and remove it
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"isolio/tests/nri/oci"
)

// pod is what a FILE has.
type pod struct {
	Name        string            `json:"name"`
	UID         string            `json:"uid"`
	Namespace   string            `json:"namespace"`
	Annotations map[string]string `json:"annotations"`
	Parent      string            `json:"parent"` // its cgroup, as a kubelet names it
	Image       string            `json:"image"`
	Command     []string          `json:"command"` // in place of the image's
	Log         string            `json:"log"`     // a directory for what it prints
	Device      string            `json:"device"`  // a block device that the container has
	Mounts      map[string]string `json:"mounts"`  // directories of the node, by where the container has them
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pods:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "image":
		program, err := os.ReadFile(args[2])
		if err != nil {
			return err
		}
		return os.WriteFile(args[3], oci.Archive(args[1], program), 0o644)
	case len(args) == 3 && args[0] == "run":
		text, err := os.ReadFile(args[2])
		if err != nil {
			return err
		}
		var p pod
		if err := json.Unmarshal(text, &p); err != nil {
			return fmt.Errorf("%s: %w", args[2], err)
		}
		return ask(args[1], func(ctx context.Context, runtime cri.RuntimeServiceClient) error { return start(ctx, runtime, &p) })
	case len(args) == 3 && args[0] == "remove":
		return ask(args[1], func(ctx context.Context, runtime cri.RuntimeServiceClient) error {
			return remove(ctx, runtime, args[2])
		})
	}
	return errors.New("usage: pods image NAME PROGRAM FILE | pods run SOCKET FILE | pods remove SOCKET NAME")
}

// ask waits for a runtime that is not there yet.
func ask(socket string, what func(context.Context, cri.RuntimeServiceClient) error) error {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	runtime := cri.NewRuntimeServiceClient(conn)
	for {
		// One that has just started serves before it has read what it ran.
		if _, err := runtime.Version(ctx, &cri.VersionRequest{}); err == nil {
			return what(ctx, runtime)
		} else if ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func start(ctx context.Context, runtime cri.RuntimeServiceClient, p *pod) error {
	host := &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}
	sandbox := &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: p.Name, Uid: p.UID, Namespace: p.Namespace}, Annotations: p.Annotations, LogDirectory: p.Log,
		Linux: &cri.LinuxPodSandboxConfig{CgroupParent: p.Parent, SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: host}},
	}
	made, err := runtime.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		return fmt.Errorf("RunPodSandbox %s: %w", p.Name, err)
	}
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "main"}, Image: &cri.ImageSpec{Image: p.Image}, Command: p.Command, LogPath: "main.log",
		Envs:  []*cri.KeyValue{{Key: "PATH", Value: []byte("/bin")}, {Key: "HOME", Value: []byte("/tmp")}},
		Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: host}},
	}
	if p.Device != "" {
		config.Devices = []*cri.Device{{HostPath: p.Device, ContainerPath: p.Device, Permissions: "rwm"}}
	}
	for to, from := range p.Mounts {
		config.Mounts = append(config.Mounts, &cri.Mount{HostPath: from, ContainerPath: to})
	}
	c, err := runtime.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: made.PodSandboxId, SandboxConfig: sandbox, Config: config})
	if err != nil {
		return fmt.Errorf("CreateContainer %s: %w", p.Name, err)
	}
	if _, err := runtime.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
		return fmt.Errorf("StartContainer %s: %w", p.Name, err)
	}
	fmt.Println(c.ContainerId)
	return nil
}

func remove(ctx context.Context, runtime cri.RuntimeServiceClient, name string) error {
	list, err := runtime.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("ListPodSandbox: %w", err)
	}
	for _, p := range list.Items {
		if p.Metadata.Name != name {
			continue
		}
		if _, err := runtime.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.Id}); err != nil {
			return fmt.Errorf("StopPodSandbox %s: %w", name, err)
		}
		if _, err := runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.Id}); err != nil {
			return fmt.Errorf("RemovePodSandbox %s: %w", name, err)
		}
		return nil
	}
	return fmt.Errorf("%s: no such pod", name)
}
