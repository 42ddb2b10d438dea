// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"isolio/internal/host/slo"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

func TestSLAReport(t *testing.T) {
	root := t.TempDir()
	run := func(args ...string) (string, string, int) {
		var stdout, stderr bytes.Buffer
		code := Run(context.Background(), append([]string{"sla", "report", "--root", root}, args...), strings.NewReader(""), &stdout, &stderr)
		return stdout.String(), stderr.String(), code
	}
	if out, stderr, code := run(); code != 0 || !strings.HasPrefix(out, "There is no account of any promise: ") {
		t.Errorf("%d: %s%s", code, out, stderr)
	}
	if out, _, code := run("--json"); code != 0 || !strings.Contains(out, `"promises": []`) {
		t.Errorf("%d: %s", code, out)
	}
	now := time.Now()
	s, err := slo.HistoryAt(root).Open(slo.Meta{Promise: "unit \x1b[2Jshop", Disk: "sda", Identity: "wwid-1", Terms: "1000 IOPS of reads", ObjectivePct: 99}, now)
	must.OK(t, err)
	for back, n := range map[time.Duration]int{0: 199, 48 * time.Hour: 50} {
		var c slo.Counts
		for range n {
			c.Count(slo.Verdict{Demanded: true, Kept: true})
		}
		c.Count(slo.Verdict{Demanded: true, Cause: slo.Oversold})
		must.OK(t, s.Add(now.Add(-back), c))
	}
	must.OK(t, s.Close())
	out, stderr, code := run("--since", "1d")
	if code != 0 || !strings.Contains(out, "99.500 %") || !strings.Contains(out, "oversold 1 s") || !strings.Contains(out, "50.0 %") || !strings.Contains(out, `unit \x1b[2Jshop`) {
		t.Errorf("%d: %s%s", code, out, stderr)
	}
	out, _, _ = run("--since", "3d", "--json")
	var r slo.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Promises[0].Kept != 249 || r.Promises[0].Missed["oversold"] != 2 || len(r.Promises[0].Hours) != 2 {
		t.Errorf("%v: %s", err, out)
	}
	if out, _, _ = run("--csv"); !strings.HasPrefix(out, "promise,disk,") || strings.Count(out, "\n") != 2 {
		t.Errorf("%s", out)
	}
	// A history that is damaged is told of, after the others.
	testtree.File(t, filepath.Join(root, slo.HistoryDir, "x.history"), "x")
	if out, stderr, code = run(); code != 1 || !strings.Contains(out, "99.203 %") || !strings.HasSuffix(stderr, "x.history: is not a history, or is damaged\n") {
		t.Errorf("%d: %s%s", code, out, stderr)
	}
}

func TestSince(t *testing.T) {
	for text, want := range map[string]time.Duration{"7d": 7 * 24 * time.Hour, "1.5d": 36 * time.Hour, "90m": 90 * time.Minute, "30d": 720 * time.Hour, "5m": 5 * time.Minute} {
		if got, err := sinceOf(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "7", "d", "31d", "-1d", "1s", "-7d", "NaNd", "Infd", "1e9d", "7D"} {
		if got, err := sinceOf(text); err == nil || !strings.HasPrefix(err.Error(), "--since: ") {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
