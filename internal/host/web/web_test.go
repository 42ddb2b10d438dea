// SPDX-License-Identifier: MIT

package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"isolio/internal/must"
)

// client is one at an address of the loopback.
type client struct {
	net.Conn
	read *bufio.Reader
}

func connect(t *testing.T, from byte, to net.Addr) client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, from}), 0))}
	conn, err := dialer.Dial(to.Network(), to.String())
	must.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return client{conn, bufio.NewReader(conn)}
}

// asks is an error unless the client gets an answer by its connection.
func (c client) asks() error {
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: n\r\n\r\n"); err != nil {
		return err
	}
	r, err := http.ReadResponse(c.read, nil)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

// Where there is room for no more connections, the client with the most loses its oldest; others keep
// theirs, though these be older.
func TestTheClientWithTheMostLosesItsOldest(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0")
	must.OK(t, err)
	server := Server(Probe(func(context.Context) string { return "" }))
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	few := []client{connect(t, 2, l.Addr()), connect(t, 3, l.Addr())}
	for _, c := range few {
		must.OK(t, c.asks())
	}
	var many []client
	for range 2 * Most {
		c := connect(t, 4, l.Addr())
		must.OK(t, c.asks())
		many = append(many, c)
	}
	for i, c := range few {
		if err := c.asks(); err != nil {
			t.Errorf("client %d of one connection: %v", i, err)
		}
	}
	for i, c := range many {
		if err := c.asks(); (err == nil) != (i >= len(many)-Most+len(few)) {
			t.Errorf("connection %d of %d: %v", i, len(many), err)
		}
	}
}
