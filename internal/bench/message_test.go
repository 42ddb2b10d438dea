// SPDX-License-Identifier: MIT

package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"isolio/internal/failure"
)

func serve(t *testing.T, e Env, scheduler string) []Message {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	var b bytes.Buffer
	if err := Serve(t.Context(), e, parse(t, ""), scheduler, &b); err != nil {
		t.Fatal(err)
	}
	var all []Message
	for line := range bytes.Lines(b.Bytes()) {
		var m Message
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

func TestServeSendsTheWholeRun(t *testing.T) {
	_, e := newMachine(t, honest)
	all := serve(t, e, "bfq")
	last := all[len(all)-1]
	if last.Run == nil || last.Err() != nil || all[0].Progress == nil || all[0].Progress.Phase != PhaseSetup {
		t.Fatalf("messages %+v", all)
	}
	_, e = newMachine(t, honest)
	want, err := Run(t.Context(), e, parse(t, ""), "bfq", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*last.Run, want) {
		t.Errorf("run arrived as\n%+v\nwant\n%+v", *last.Run, want)
	}
}

func TestServeSendsTheError(t *testing.T) {
	m, e := newMachine(t, honest)
	m.file(e.Cgroups.Path("cgroup.controllers"), "cpu\n")
	all := serve(t, e, "bfq")
	err := all[len(all)-1].Err()
	if failure.Code(err) != failure.Unsupported || all[len(all)-1].Run != nil {
		t.Errorf("error arrived as %v, code %d", err, failure.Code(err))
	}
}

func TestServeReportsThatItCannotWrite(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	m, e := newMachine(t, honest)
	broken := errors.New("broken pipe")
	if err := Serve(t.Context(), e, parse(t, ""), "bfq", failingWriter{broken}); !errors.Is(err, broken) {
		t.Errorf("Serve = %v", err)
	}
	m.checkClean()
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }
