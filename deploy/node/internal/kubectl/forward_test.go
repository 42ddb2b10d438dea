// SPDX-License-Identifier: MIT

package kubectl

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// kubelet answers as the API server does that forwards a port to a pod. It takes SPDY alone: a
// client that begins with a WebSocket has to go on with that.
func kubelet(t *testing.T, serve func(port string, data, failure httpstream.Stream)) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/isolio-system/pods/a/portforward" {
			http.Error(w, r.URL.Path, http.StatusNotFound)
			return
		}
		if r.Header.Get("Authorization") != "Bearer me" {
			http.Error(w, "pods \"a\" is forbidden", http.StatusForbidden)
			return
		}
		if r.Method != http.MethodPost {
			http.Error(w, "no websocket here", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			t.Errorf("handshake: %v", err)
			return
		}
		streams := make(chan httpstream.Stream, 2)
		conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		})
		if conn == nil {
			t.Error("no connection")
			return
		}
		defer conn.Close()
		var data, failure httpstream.Stream
		for range 2 {
			select {
			case s := <-streams:
				if s.Headers().Get(core.StreamType) == core.StreamTypeError {
					failure = s
				} else {
					data = s
				}
			case <-time.After(10 * time.Second):
				t.Error("a stream is missing")
				return
			}
		}
		serve(data.Headers().Get(core.PortHeader), data, failure)
		<-conn.CloseChan()
	}))
	t.Cleanup(server.Close)
	return server
}

// Pages come over a connection that kubelet makes to the pod; what it cannot do it says.
func TestForward(t *testing.T) {
	for _, tt := range []struct {
		name, token string
		serve       func(port string, data, failure httpstream.Stream)
		text, err   string
	}{
		{"an answer", "me", func(port string, data, failure httpstream.Stream) {
			request, err := http.ReadRequest(bufio.NewReader(data))
			if err != nil {
				t.Error(err)
				return
			}
			failure.Close()
			text := request.Method + " " + request.URL.Path + " at " + port
			fmt.Fprintf(data, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
			data.Close()
		}, "GET /pods at 9107", ""},
		{"another version", "me", func(_ string, data, failure httpstream.Stream) {
			failure.Close()
			fmt.Fprint(data, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
			data.Close()
		}, "", "GET /pods: 404 Not Found"},
		{"nothing listens", "me", func(_ string, data, failure httpstream.Stream) {
			fmt.Fprintln(failure, "dial tcp4 127.0.0.1:9107: connect: connection refused")
			failure.Close()
			data.Close()
		}, "", "port-forward: dial tcp4 127.0.0.1:9107: connect: connection refused"},
		{"not allowed", "other", nil, "", `pods "a" is forbidden`},
		{"no answer", "me", func(string, httpstream.Stream, httpstream.Stream) {}, "", "context deadline exceeded"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := kubelet(t, tt.serve)
			at, err := url.Parse(server.URL + "/api/v1/namespaces/isolio-system/pods/a/portforward")
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			text, err := forwarded(ctx, &rest.Config{Host: server.URL, BearerToken: tt.token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, at, 9107, "/pods")
			if string(text) != tt.text || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q, %v; want %q, %q", text, err, tt.text, tt.err)
			}
		})
	}
}

// The plugin forwards to pods of the namespace that isolio is in, with the user's own rights.
func TestAsk(t *testing.T) {
	server := kubelet(t, func(_ string, data, failure httpstream.Stream) {
		if _, err := http.ReadRequest(bufio.NewReader(data)); err != nil {
			t.Error(err)
		}
		failure.Close()
		fmt.Fprint(data, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		data.Close()
	})
	p := plugin{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), system: "isolio-system"}
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"insecure-skip-tls-verify":true,"server":"` + server.URL + `"}}],"users":[{"name":"u","user":{"token":"me"}}]}`
	if err := os.WriteFile(p.kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.connect(); err != nil {
		t.Fatal(err)
	}
	if got, err := p.ask(t.Context(), "a", 9107, "/pods"); err != nil || string(got) != "{}" {
		t.Errorf("%q, %v", got, err)
	}
}

// A node that is another's tells no more than an operator's machine can take.
func TestAnswerIsBounded(t *testing.T) {
	for size, ok := range map[int]bool{answerMost: true, answerMost + 1: false, 4 * answerMost: false} {
		conn := struct {
			io.Reader
			io.Writer
		}{io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\n\r\n"), bytes.NewReader(make([]byte, size))), io.Discard}
		text, err := get(t.Context(), conn, "/pods")
		if ok && (err != nil || len(text) != size) || !ok && (text != nil || err == nil || !strings.Contains(err.Error(), "larger than 16 MiB")) {
			t.Errorf("%d bytes: %d are taken, %v", size, len(text), err)
		}
	}
}
