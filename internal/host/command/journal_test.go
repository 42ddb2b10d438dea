// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"isolio/internal/printable"
)

// Each level has its priority, and each value a field that is safe to show.
func TestHandler(t *testing.T) {
	type entry struct {
		message string
		level   slog.Level
		fields  map[string]string
	}
	var sent []entry
	log := slog.New(newJournalHandler(func(message string, level slog.Level, fields map[string]string) error {
		sent = append(sent, entry{message, level, fields})
		return nil
	}, slog.DiscardHandler)).With("a-b", 1)
	log.Info("weight", "cgroup", "x\x1b[31m", "why", "rule 1")
	log.Warn("rules")
	log.Error("read")
	log.Debug("nothing")
	if len(sent) != 3 || priorityOf(sent[0].level) != journal.PriInfo || priorityOf(sent[1].level) != journal.PriWarning || priorityOf(sent[2].level) != journal.PriErr {
		t.Fatalf("%+v", sent)
	}
	if want := `weight a-b=1 cgroup=x\x1b[31m why="rule 1"`; sent[0].message != want {
		t.Errorf("message %q, want %q", sent[0].message, want)
	}
	want := map[string]string{
		"ISOLIO_EVENT": "weight", "SYSLOG_IDENTIFIER": "isolio", "ISOLIO_A_B": "1", "ISOLIO_CGROUP": `x\x1b[31m`, "ISOLIO_WHY": "rule 1",
	}
	if !reflect.DeepEqual(sent[0].fields, want) {
		t.Errorf("fields %v, want %v", sent[0].fields, want)
	}
	for _, value := range sent[0].fields {
		if !printable.Is(value) {
			t.Errorf("%q acts on a terminal", value)
		}
	}
	var b bytes.Buffer
	log = slog.New(newJournalHandler(func(string, slog.Level, map[string]string) error { return errors.New("no journal") }, slog.NewTextHandler(&b, nil)))
	log.Error("read", "of", "x")
	if !strings.Contains(b.String(), "msg=read of=x") {
		t.Errorf("without a journal: %q", b.String())
	}
}

// What was sent is read again; journalctl prints bytes as numbers.
func TestRead(t *testing.T) {
	const printed = `{"__REALTIME_TIMESTAMP":"1700000000000000","ISOLIO_CGROUP":"docker/a","ISOLIO_VALUE":"700","ISOLIO_BEFORE":"100","ISOLIO_BY":"daemon","ISOLIO_WHY":"rule 1"}
{"__REALTIME_TIMESTAMP":"1700000001000000","ISOLIO_CGROUP":[108,120,99,255],"ISOLIO_DISK":"8:0","ISOLIO_BEFORE":"8:0 default","ISOLIO_VALUE":["1","8:0 50"],"ISOLIO_BY":"operator","ISOLIO_USER":"root","ISOLIO_WHY":null}
`
	got, err := readJournal(strings.NewReader(printed))
	want := []journalEntry{
		{Time: time.Unix(1700000000, 0), Cgroup: "docker/a", Before: "100", Weight: "700", By: "daemon", Why: "rule 1"},
		{Time: time.Unix(1700000001, 0), Cgroup: "lxc\xff", Disk: "8:0", Before: "default", Weight: "50", By: "operator", User: "root"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Read = %+v, %v; want %+v", got, err, want)
	}
	for _, wrong := range []string{`{"__REALTIME_TIMESTAMP":`, `{}`, `no JSON`} {
		if _, err := readJournal(strings.NewReader(wrong)); err == nil {
			t.Errorf("%s is read", wrong)
		}
	}
	if all, err := readJournal(strings.NewReader("")); len(all) != 0 || err != nil {
		t.Errorf("nothing gives %v, %v", all, err)
	}
	fields := want[0].Fields()
	if fields["ISOLIO_CGROUP"] != "docker/a" || fields[eventField] != weightEvent || fields["ISOLIO_VALUE"] != "700" {
		t.Errorf("fields %v", fields)
	}
}
