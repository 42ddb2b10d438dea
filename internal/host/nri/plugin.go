// SPDX-License-Identifier: MIT

package nri

import (
	"context"
	"strings"

	"github.com/containerd/nri/pkg/api"
)

// plugin answers the runtime on one connection. Each answer is given at once, and
// none is an error: an error would fail the pod.
type plugin struct {
	source *Source
	engine string
	// next is what Synchronize told so far, which comes in parts.
	next known
	// synced is true when all of it came.
	synced bool
}

// events are those that tell something new.
func events() int32 {
	var mask api.EventMask
	mask.Set(api.Event_RUN_POD_SANDBOX, api.Event_STOP_POD_SANDBOX, api.Event_REMOVE_POD_SANDBOX,
		api.Event_POST_CREATE_CONTAINER, api.Event_START_CONTAINER, api.Event_REMOVE_CONTAINER)
	return int32(mask)
}

// Configure learns which runtime it is.
func (p *plugin) Configure(_ context.Context, r *api.ConfigureRequest) (*api.ConfigureResponse, error) {
	p.source.mu.Lock()
	defer p.source.mu.Unlock()
	p.engine = engineOf(r.GetRuntimeName())
	return &api.ConfigureResponse{Events: events()}, nil
}

// engineOf is what container.Container calls a runtime.
func engineOf(runtime string) string {
	switch name := strings.ToLower(runtime); name {
	case "cri-o", "crio":
		return "cri-o"
	case "containerd":
		return name
	}
	return ""
}

// Synchronize is told of all that there is, in one or more parts. What was known
// before is forgotten with the last of them.
func (p *plugin) Synchronize(_ context.Context, r *api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
	s := p.source
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pod := range r.GetPods() {
		p.next.addPod(pod, s.keep)
	}
	for _, c := range r.GetContainers() {
		p.next.addContainer(c, s.keep)
	}
	if !r.GetMore() {
		p.next.engine = p.engine
		p.next.goesOn(func(id string) bool { return s.known.pods[id].Stopped || s.stopped[id] })
		s.stopped = nil
		s.known, s.heard, s.err = p.next, true, nil
		p.next, p.synced = known{}, true
		p.next.clear()
		signal(s.changed)
	}
	return &api.SynchronizeResponse{More: r.GetMore()}, nil
}

// event records one thing that happened, and has the daemon look.
func (p *plugin) event(record func(k *known, keep func(key string) bool)) {
	s := p.source
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.synced {
		record(&p.next, s.keep) // of a runtime that does not wait for its own request
		return
	}
	record(&s.known, s.keep)
	signal(s.changed)
}

func (p *plugin) podRuns(pod *api.PodSandbox) {
	p.event(func(k *known, keep func(string) bool) { k.addPod(pod, keep) })
}

func (p *plugin) podStops(pod *api.PodSandbox) {
	p.event(func(k *known, _ func(string) bool) { k.stopPod(pod.GetId()) })
}

func (p *plugin) podGoes(pod *api.PodSandbox) {
	p.event(func(k *known, _ func(string) bool) { k.removePod(pod.GetId()) })
}

func (p *plugin) containerComes(pod *api.PodSandbox, c *api.Container) {
	p.event(func(k *known, keep func(string) bool) {
		k.addPod(pod, keep)
		k.addContainer(c, keep)
	})
}

func (p *plugin) containerGoes(c *api.Container) {
	p.event(func(k *known, _ func(string) bool) { delete(k.containers, c.GetId()) })
}

// RunPodSandbox is told of a pod that runs.
func (p *plugin) RunPodSandbox(_ context.Context, r *api.RunPodSandboxRequest) (*api.RunPodSandboxResponse, error) {
	p.podRuns(r.GetPod())
	return &api.RunPodSandboxResponse{}, nil
}

// StopPodSandbox is told of one that ended, whose sandbox is not removed yet.
func (p *plugin) StopPodSandbox(_ context.Context, r *api.StopPodSandboxRequest) (*api.StopPodSandboxResponse, error) {
	p.podStops(r.GetPod())
	return &api.StopPodSandboxResponse{}, nil
}

// RemovePodSandbox is told of one that is gone.
func (p *plugin) RemovePodSandbox(_ context.Context, r *api.RemovePodSandboxRequest) (*api.RemovePodSandboxResponse, error) {
	p.podGoes(r.GetPod())
	return &api.RemovePodSandboxResponse{}, nil
}

// PostCreateContainer is told of a container that is about to come.
func (p *plugin) PostCreateContainer(_ context.Context, r *api.PostCreateContainerRequest) (*api.PostCreateContainerResponse, error) {
	p.containerComes(r.GetPod(), r.GetContainer())
	return &api.PostCreateContainerResponse{}, nil
}

// StartContainer is told of a container whose cgroup is there.
func (p *plugin) StartContainer(_ context.Context, r *api.StartContainerRequest) (*api.StartContainerResponse, error) {
	p.containerComes(r.GetPod(), r.GetContainer())
	return &api.StartContainerResponse{}, nil
}

// RemoveContainer is told of a container that is gone.
func (p *plugin) RemoveContainer(_ context.Context, r *api.RemoveContainerRequest) (*api.RemoveContainerResponse, error) {
	p.containerGoes(r.GetContainer())
	return &api.RemoveContainerResponse{}, nil
}

// StateChange is how runtimes up to containerd 2.1 tell of these events.
func (p *plugin) StateChange(_ context.Context, r *api.StateChangeEvent) (*api.Empty, error) {
	switch r.GetEvent() {
	case api.Event_RUN_POD_SANDBOX:
		p.podRuns(r.GetPod())
	case api.Event_STOP_POD_SANDBOX:
		p.podStops(r.GetPod())
	case api.Event_REMOVE_POD_SANDBOX:
		p.podGoes(r.GetPod())
	case api.Event_POST_CREATE_CONTAINER, api.Event_START_CONTAINER:
		p.containerComes(r.GetPod(), r.GetContainer())
	case api.Event_REMOVE_CONTAINER:
		p.containerGoes(r.GetContainer())
	}
	return &api.Empty{}, nil
}

// The rest is not asked for. An answer that changes nothing is right all the same.

// Shutdown is told that the runtime ends.
func (p *plugin) Shutdown(context.Context, *api.Empty) (*api.Empty, error) { return &api.Empty{}, nil }

// UpdatePodSandbox changes nothing.
func (p *plugin) UpdatePodSandbox(context.Context, *api.UpdatePodSandboxRequest) (*api.UpdatePodSandboxResponse, error) {
	return &api.UpdatePodSandboxResponse{}, nil
}

// PostUpdatePodSandbox changes nothing.
func (p *plugin) PostUpdatePodSandbox(context.Context, *api.PostUpdatePodSandboxRequest) (*api.PostUpdatePodSandboxResponse, error) {
	return &api.PostUpdatePodSandboxResponse{}, nil
}

// CreateContainer changes nothing.
func (p *plugin) CreateContainer(context.Context, *api.CreateContainerRequest) (*api.CreateContainerResponse, error) {
	return &api.CreateContainerResponse{}, nil
}

// PostStartContainer changes nothing.
func (p *plugin) PostStartContainer(context.Context, *api.PostStartContainerRequest) (*api.PostStartContainerResponse, error) {
	return &api.PostStartContainerResponse{}, nil
}

// UpdateContainer changes nothing.
func (p *plugin) UpdateContainer(context.Context, *api.UpdateContainerRequest) (*api.UpdateContainerResponse, error) {
	return &api.UpdateContainerResponse{}, nil
}

// PostUpdateContainer changes nothing.
func (p *plugin) PostUpdateContainer(context.Context, *api.PostUpdateContainerRequest) (*api.PostUpdateContainerResponse, error) {
	return &api.PostUpdateContainerResponse{}, nil
}

// StopContainer changes nothing.
func (p *plugin) StopContainer(context.Context, *api.StopContainerRequest) (*api.StopContainerResponse, error) {
	return &api.StopContainerResponse{}, nil
}

// ValidateContainerAdjustment rejects nothing.
func (p *plugin) ValidateContainerAdjustment(context.Context, *api.ValidateContainerAdjustmentRequest) (*api.ValidateContainerAdjustmentResponse, error) {
	return &api.ValidateContainerAdjustmentResponse{}, nil
}
