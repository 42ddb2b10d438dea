// SPDX-License-Identifier: MIT

// Package nri hears of pods from a container runtime, containerd or CRI-O, over the
// Node Resource Interface. It is a plugin that asks for no change: it takes down
// names, annotations, labels and cgroups, and the daemon does the rest when it
// comes to it. So no pod waits for it, and none fails because of it.
//
// The runtime calls, one request at a time:
//
//	Configure            once, and is told which events are wanted
//	Synchronize          once: all pods and containers that there are
//	RunPodSandbox        the pod's cgroup and its sandbox are there, no container yet
//	PostCreateContainer  the container is known, its cgroup is not there yet
//	StartContainer       its cgroup is there, its program does not run yet
//	StopPodSandbox       the pod ended; its sandbox may be there for minutes still
//	RemoveContainer, RemovePodSandbox
//
// The library has a stub for plugins, which is not used. Its Start waits without
// end if the runtime ends between registration and Configure, so there would be no
// next connection. And it collects all of Synchronize before it passes that on,
// where annotations are the tenants' and may have 256 KiB a pod.
package nri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/nri/pkg/version"
	"github.com/containerd/ttrpc"

	"isolio/internal/host/state"
)

// Socket is where runtimes listen for plugins.
const Socket = "/var/run/nri/nri.sock"

// The plugin's name, and its place among others: with no changes to make, any.
const (
	pluginName  = "isolio"
	pluginIndex = "90"
)

// How long after an end of the connection the next one is tried: twice as long each
// time. The most is short, as a try costs one system call.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// registration is how long the runtime may take to answer the first request.
const registration = 5 * time.Second

// Source hears of pods. Its methods may be called from any goroutine.
type Source struct {
	// Socket is the runtime's, below the machine's root.
	Socket string

	changed chan struct{}
	again   chan struct{}

	mu    sync.Mutex
	known known
	keep  func(key string) bool
	// heard is true if a runtime told of all pods ever.
	heard bool
	// err is why no connection tells of pods now.
	err error
	// stopped are the pods that an earlier daemon was told have stopped, by ID; nil once
	// the runtime has told of all pods.
	stopped map[string]bool
}

// New is a source below the machine's root, "" for /. keep chooses labels and
// annotations by their keys.
func New(root, socket string, keep func(key string) bool) *Source {
	s := &Source{
		Socket: filepath.Join("/", root, socket), keep: keep, err: errors.New("not connected yet"),
		changed: make(chan struct{}, 1), again: make(chan struct{}, 1), stopped: stopped(root),
	}
	s.known.clear()
	return s
}

// stopped are the pods that an earlier daemon's report has as stopped, by ID.
func stopped(root string) map[string]bool {
	r, there, err := state.ReadPodReport(root)
	if err != nil || !there {
		return nil
	}
	all := map[string]bool{}
	for _, p := range r.Pods {
		all[p.ID] = p.Stopped
	}
	return all
}

// Changed has something in it when a report tells more than the last one.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// Keep chooses other labels and annotations. What was not kept has to be told
// again, so the source connects anew.
func (s *Source) Keep(keep func(key string) bool) {
	s.mu.Lock()
	s.keep = keep
	s.mu.Unlock()
	signal(s.again)
}

// Report is what is known of pods, nil if no runtime ever told of them. The error is
// why none tells now: what it told last holds while it is away.
func (s *Source) Report() (*state.PodReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.heard {
		return nil, s.err
	}
	return s.known.report(), s.err
}

// signal puts something into a channel of one place, or finds it there.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run connects to the runtime whenever it is there, until ctx ends.
func (s *Source) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := s.connection(ctx)
		if errors.Is(err, errAgain) || ctx.Err() != nil {
			continue
		}
		if s.ended(err) && time.Since(began) > lastPause {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// ended takes down why there is no connection, and reports whether there was one.
func (s *Source) ended(err error) (was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was = s.err == nil
	if was || s.err.Error() != err.Error() {
		signal(s.changed)
	}
	s.err = err
	return was
}

// errAgain ends a connection that is to be made anew.
var errAgain = errors.New("connects anew")

// connection registers with the runtime and serves it, until one of them ends.
func (s *Source) connection(ctx context.Context) error {
	select {
	case <-s.again: // what this connection tells is kept as it is asked for now
	default:
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.Socket)
	if err != nil {
		return err
	}
	mux := multiplex.Multiplex(conn)
	defer mux.Close()
	listener, err := mux.Listen(multiplex.PluginServiceConn)
	if err != nil {
		return err
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		return err
	}
	defer server.Close()
	p := &plugin{source: s}
	p.next.clear()
	api.RegisterPluginService(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()

	to, err := mux.Open(multiplex.RuntimeServiceConn)
	if err != nil {
		return err
	}
	closed := make(chan struct{})
	client := ttrpc.NewClient(to, ttrpc.WithOnClose(func() { close(closed) }))
	defer client.Close()
	register, cancel := context.WithTimeout(ctx, registration)
	defer cancel()
	if _, err := api.NewRuntimeClient(client).RegisterPlugin(register, &api.RegisterPluginRequest{
		PluginName: pluginName, PluginIdx: pluginIndex, NRIVersion: version.GetFromBuildInfo(),
	}); err != nil {
		return fmt.Errorf("register with the runtime: %w", err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.again:
		return errAgain
	case <-closed:
		return errors.New("the runtime ended the connection")
	case err := <-served:
		return fmt.Errorf("serve the runtime: %w", err)
	}
}
