// SPDX-License-Identifier: MIT

package run

import (
	"bytes"
	"encoding/json"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/lab/guest"
	"isolio/internal/lab/result"
	"isolio/internal/must"
)

// FuzzReport takes lines that a VM writes. A result in them is written as a
// document, and read back it is the same document.
func FuzzReport(f *testing.F) {
	f.Add([]byte(`{"progress":{}}` + "\n" + `{"run":{"scheduler":"none","device":"x","containers":[{"name":"a","weight":100,"read":{"bytes_per_s":1.25}}]}}`))
	f.Add([]byte(`{"error":"no disk"}`))
	f.Add([]byte(`{"run":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzlimit.Run(t, uint64(32<<20+5000*len(text)), func() {
			var r report
			for line := range bytes.Lines(text) {
				r.take(line, guest.Progress{})
			}
			if r.Run == nil {
				return
			}
			document := result.Document{Schema: result.Schema, Runs: []result.Run{*r.Run}}
			first := written(t, &document)
			var again result.Document
			if err := json.Unmarshal(first, &again); err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			if second := written(t, &again); !bytes.Equal(first, second) {
				t.Errorf("%s became %s", first, second)
			}
		})
	})
}

func written(t *testing.T, document *result.Document) []byte {
	t.Helper()
	var out bytes.Buffer
	must.OK(t, document.WriteJSON(&out))
	return out.Bytes()
}
