// SPDX-License-Identifier: MIT

package kubectl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forwardTime is how long one pod may take to answer.
const forwardTime = 30 * time.Second

// A node may be another's by now. What it tells of 110 pods is less than a megabyte; the rest is not read.
const (
	answerMost = 16 << 20
	reasonMost = 4 << 10
)

// forwarded gets a page from a pod, at a port of the pod's loopback: at is the pod's
// subresource portforward. The API server decides who may do that, and kubelet makes the
// connection, as for kubectl port-forward. No port of this machine is opened, which its other
// users could ask.
func forwarded(ctx context.Context, config *rest.Config, at *url.URL, port int, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	conn, err := dial(ctx, config, at)
	if err != nil {
		return nil, fmt.Errorf("port-forward: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	headers := http.Header{}
	headers.Set(core.PortHeader, strconv.Itoa(port))
	headers.Set(core.PortForwardRequestIDHeader, "0")
	headers.Set(core.StreamType, core.StreamTypeError)
	failure, err := conn.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("port-forward: %w", err)
	}
	failure.Close() // nothing is written to it
	headers.Set(core.StreamType, core.StreamTypeData)
	data, err := conn.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("port-forward: %w", err)
	}
	text, err := get(ctx, data, path)
	if err == nil {
		return text, nil
	}
	// Kubelet says there why it has no connection to the port.
	if why, _ := io.ReadAll(io.LimitReader(failure, reasonMost)); ctx.Err() == nil && len(why) > 0 {
		return nil, fmt.Errorf("port-forward: %s", strings.TrimSpace(string(why)))
	}
	return nil, errors.Join(err, ctx.Err())
}

// dial connects to kubelet by way of the API server: over a WebSocket, or by SPDY with an API server
// or a proxy that does not take that.
func dial(ctx context.Context, config *rest.Config, at *url.URL) (httpstream.Connection, error) {
	first, err := portforward.NewSPDYOverWebsocketDialerForStreaming(at, config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	second := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
	either := portforward.NewFallbackDialerForStreaming(first, second, func(err error) bool { return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) })
	type result struct {
		conn httpstream.Connection
		err  error
	}
	done := make(chan result, 1)
	go func() { // it takes no context
		conn, _, err := either.Dial(portforward.PortForwardProtocolV1Name)
		done <- result{conn, err}
	}()
	select {
	case r := <-done:
		return r.conn, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// get asks over one connection, which ends with it.
func get(ctx context.Context, conn io.ReadWriter, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return nil, err
	}
	request.Close = true
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, answerMost+1))
	if err == nil && len(text) > answerMost {
		return nil, fmt.Errorf("GET %s: the answer is larger than %d MiB", path, answerMost>>20)
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", path, answer.Status)
	}
	return text, err
}
