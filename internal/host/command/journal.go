// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"isolio/internal/printable"
)

// Fields of an entry, besides the journal's own.
const (
	prefix = "ISOLIO_"
	// eventField is what happened; weightEvent is its value for a weight that was written.
	eventField  = prefix + "EVENT"
	weightEvent = "weight"
)

// journalSender sends one entry.
type journalSender func(message string, level slog.Level, fields map[string]string) error

// sendToJournal sends to systemd's journal.
func sendToJournal(message string, level slog.Level, fields map[string]string) error {
	return journal.Send(message, priorityOf(level), fields)
}

// onJournal reports whether standard error goes to the journal.
func onJournal() bool {
	is, err := journal.StderrIsJournalStream()
	return is && err == nil
}

// journalHandler is for a log that goes to the journal.
type journalHandler struct {
	send journalSender
	// other is for entries that could not be sent.
	other slog.Handler
	attrs []slog.Attr
}

// newJournalHandler sends records, and has other take those that cannot be sent.
func newJournalHandler(send journalSender, other slog.Handler) *journalHandler {
	return &journalHandler{send: send, other: other}
}

// Enabled is for all but debugging.
func (h *journalHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo
}

// WithAttrs is a handler whose records have these attributes as well.
func (h *journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &journalHandler{h.send, h.other.WithAttrs(attrs), append(slices.Clip(h.attrs), attrs...)}
}

// WithGroup is the same handler: the journal's fields have no groups.
func (h *journalHandler) WithGroup(string) slog.Handler { return h }

// Handle sends one record.
func (h *journalHandler) Handle(ctx context.Context, r slog.Record) error {
	fields := map[string]string{eventField: r.Message, "SYSLOG_IDENTIFIER": "isolio"}
	var text bytes.Buffer
	text.WriteString(r.Message)
	add := func(a slog.Attr) bool {
		value := printable.Text(a.Value.String())
		fields[fieldOf(a.Key)] = value
		if value == "" || strings.ContainsAny(value, ` ="`) {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&text, " %s=%s", a.Key, value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if err := h.send(text.String(), r.Level, fields); err != nil {
		return h.other.Handle(ctx, r)
	}
	return nil
}

// fieldOf is the journal's name for a key.
func fieldOf(key string) string {
	return prefix + strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(key))
}

func priorityOf(level slog.Level) journal.Priority {
	switch {
	case level >= slog.LevelError:
		return journal.PriErr
	case level >= slog.LevelWarn:
		return journal.PriWarning
	}
	return journal.PriInfo
}

// journalEntry is a weight that was written.
type journalEntry struct {
	Time   time.Time `json:"time"`
	Cgroup string    `json:"cgroup"`
	Name   string    `json:"name,omitempty"`
	// Disk is "MAJ:MIN", "" for all disks.
	Disk   string `json:"disk,omitempty"`
	Before string `json:"before,omitempty"`
	Weight string `json:"weight"`
	// By is "daemon", or "operator" with the user.
	By   string `json:"by"`
	User string `json:"user,omitempty"`
	Why  string `json:"why,omitempty"`
}

// Fields are those of an entry that Read makes the same of.
func (e journalEntry) Fields() map[string]string {
	return map[string]string{
		eventField: weightEvent, "SYSLOG_IDENTIFIER": "isolio",
		prefix + "CGROUP": e.Cgroup, prefix + "NAME": e.Name, prefix + "DISK": e.Disk, prefix + "BEFORE": e.Before,
		prefix + "VALUE": e.Weight, prefix + "BY": e.By, prefix + "USER": e.User, prefix + "WHY": e.Why,
	}
}

// journalQuery are journalctl's arguments that select entries of weights. Any program may
// send fields of any name; only those count that isolio sent, as root. Other programs of
// root's pass on fields that a tenant chose: Docker's log driver makes fields of the labels
// and variables that it is told to log.
func journalQuery() []string {
	return []string{"--output=json", "--all", "--no-pager", "--quiet", eventField + "=" + weightEvent, "_UID=0", "_COMM=" + sender}
}

// sender is the name of the process, which the journal has from the kernel.
const sender = "isolio"

// readJournal reads what journalctl prints for a Query.
func readJournal(from io.Reader) ([]journalEntry, error) {
	decoder := json.NewDecoder(from)
	var all []journalEntry
	for {
		var fields map[string]field
		err := decoder.Decode(&fields)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the journal: %w", err)
		}
		us, err := strconv.ParseInt(string(fields["__REALTIME_TIMESTAMP"]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the journal: an entry without its time: %w", err)
		}
		get := func(name string) string { return string(fields[prefix+name]) }
		// Of one disk, the values are as they were written: "MAJ:MIN WEIGHT".
		number := func(name string) string { return strings.TrimPrefix(get(name), get("DISK")+" ") }
		all = append(all, journalEntry{
			Time: time.UnixMicro(us), Cgroup: get("CGROUP"), Name: get("NAME"), Disk: get("DISK"), Before: number("BEFORE"),
			Weight: number("VALUE"), By: get("BY"), User: get("USER"), Why: get("WHY"),
		})
	}
}

// field is a value of the journal's: text, bytes as a list of numbers, or several
// of them, of which the last counts.
type field string

// UnmarshalJSON takes each of these.
func (f *field) UnmarshalJSON(text []byte) error {
	var s *string
	if json.Unmarshal(text, &s) == nil {
		if s != nil {
			*f = field(*s)
		}
		return nil
	}
	var numbers []byte
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, one := range list {
		var n uint8
		if json.Unmarshal(one, &n) == nil {
			numbers = append(numbers, n)
			continue
		}
		var last field
		if err := last.UnmarshalJSON(one); err != nil {
			return err
		}
		*f = last
	}
	if numbers != nil {
		*f = field(numbers)
	}
	return nil
}
