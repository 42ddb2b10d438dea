// SPDX-License-Identifier: MIT

// Package web serves HTTP to any client that may connect. Clients take a bounded part of the
// program's memory, and keep no other client from its answer.
package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Most is how many connections are open at a time, and so how many requests are in flight.
const Most = 64

// Limits of a client that is slow or sends nothing.
const (
	askTime     = 5 * time.Second
	answerTime  = 10 * time.Second // as long as Prometheus waits by default
	idleTime    = 5 * time.Second
	headerBytes = 16 << 10
)

// sendBuffer is how much the kernel keeps of an answer that its client does not read. A container is
// charged for that as for the program's memory, and by default it is up to 4 MiB a connection.
const sendBuffer = 64 << 10

// Server answers requests, with limits of time and size. Its connections are to come from Listen.
func Server(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: askTime, ReadTimeout: askTime, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
	}
}

// Probe answers a probe: 200, or 503 with the reason. why is "" where there is none.
func Probe(why func(ctx context.Context) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if text := why(r.Context()); text != "" {
			http.Error(w, text, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// Listen listens at a TCP address, and has at most Most connections open. It accepts one more at
// the price of another: a client that holds all of them would otherwise keep kubelet's probe out.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &listener{TCPListener: l.(*net.TCPListener)}, nil
}

type listener struct {
	*net.TCPListener

	mu   sync.Mutex
	open []*conn // the oldest first
}

type conn struct {
	*net.TCPConn
	of *listener
	// from is the client's IP address.
	from string
}

func (l *listener) Accept() (net.Conn, error) {
	tcp, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	_ = tcp.SetWriteBuffer(sendBuffer) // with another one it is served as well
	from, _, _ := net.SplitHostPort(tcp.RemoteAddr().String())
	c := &conn{tcp, l, from}
	l.mu.Lock()
	l.open = append(l.open, c)
	var last *conn
	if len(l.open) > Most {
		last = surplus(l.open)
	}
	l.mu.Unlock()
	if last != nil {
		_ = last.SetLinger(0) // the kernel drops what the client did not read
		_ = last.Close()
	}
	return c, nil
}

// surplus is the oldest connection of the client that has the most. A client with a few keeps them,
// such as kubelet and Prometheus.
func surplus(open []*conn) *conn {
	count := map[string]int{}
	for _, c := range open {
		count[c.from]++
	}
	return slices.MaxFunc(open, func(a, b *conn) int { return count[a.from] - count[b.from] })
}

func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.open = slices.DeleteFunc(c.of.open, func(other *conn) bool { return other == c })
	c.of.mu.Unlock()
	return c.TCPConn.Close()
}
