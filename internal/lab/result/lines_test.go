// SPDX-License-Identifier: MIT

package result

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"isolio/internal/must"
)

// An archived document is read as it was written, and so is one in one piece.
func TestLines(t *testing.T) {
	got := 0.25
	doc := &Document{
		Schema: Schema, Experiment: "x", Question: "Is a < b?", Provenance: &Provenance{Version: "v1", Engine: 3},
		Verdicts: []Verdict{{Scheduler: "none", Metric: "iops", Got: &got}},
		Runs: []Run{
			{Scheduler: "none", TotalBytesPS: 100.25, Containers: []Container{{Name: "a", Series: &Series{StepMS: 5, Bytes: []uint64{1}}}}},
			{Scheduler: "bfq", TotalVsNone: &got, Containers: []Container{{Name: "a"}}},
		},
	}
	var lines, whole bytes.Buffer
	must.OK(t, doc.WriteLines(&lines))
	must.OK(t, doc.WriteJSON(&whole))
	if n := strings.Count(lines.String(), "\n"); n != 3 {
		t.Errorf("%d lines, want 3:\n%s", n, &lines)
	}
	a, err := Read(bytes.NewReader(lines.Bytes()))
	must.OK(t, err)
	b, err := Read(bytes.NewReader(whole.Bytes()))
	must.OK(t, err)
	if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(a, doc.rounded()) {
		t.Errorf("of lines\n%+v\nof one piece\n%+v\nwant\n%+v", a, b, doc.rounded())
	}
	less := doc.WithoutSeries()
	if less.Runs[0].Containers[0].Series != nil || doc.Runs[0].Containers[0].Series == nil {
		t.Error("the samples are not gone, or gone from the document itself")
	}
}

// A file that was cut, or has something after its end, is no result.
func TestReadRefuses(t *testing.T) {
	const whole = `{"schema":1,"experiment":"x","runs":2}` + "\n" + `{"scheduler":"none"}` + "\n" + `{"scheduler":"bfq"}` + "\n"
	if doc, err := Read(strings.NewReader(whole)); err != nil || len(doc.Runs) != 2 || doc.Runs[1].Scheduler != "bfq" {
		t.Fatalf("%+v, %v", doc, err)
	}
	for text, want := range map[string]string{
		"":                                   "the file ends",
		whole[:len(whole)-5]:                 "the file ends after 1 of 2 runs",
		whole[:strings.Index(whole, "\n")]:   "the file ends after 0 of 2 runs",
		whole + `{"scheduler":"sfq"}`:        "has more after its last run",
		`{"schema":2,"runs":0}`:              "has schema 2",
		`{"schema":1,"runs":"two"}`:          "runs: ",
		`{"schema":1}`:                       "runs: ",
		"no JSON":                            "invalid character",
		`{"schema":1,"runs":[]}` + whole[:9]: "has more after",
	} {
		if doc, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %q", text, doc, err, want)
		}
	}
}
