// SPDX-License-Identifier: MIT

package archive

import (
	"bytes"
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/must"
)

// FuzzDecode reads a result. An error is one line that names the file; a result is the same when it is kept and read again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schema":1,"experiment":"a","runs":1}` + "\n" + `{"scheduler":"none"}` + "\n"))
	f.Add([]byte(`{"schema":1,"runs":[]}`))
	f.Add([]byte(`{"schema":1,"runs":1000000000}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzlimit.Run(t, uint64(4<<20+4000*len(text)), func() {
			doc, err := Decode("file", text)
			if err != nil {
				if s := err.Error(); strings.Contains(s, "\n") || !strings.HasPrefix(s, "result file: ") {
					t.Errorf("%q is not one line about the file", s)
				}
				return
			}
			var kept, again bytes.Buffer
			must.OK(t, doc.WriteLines(&kept))
			same, err := Decode("file", kept.Bytes())
			must.OK(t, err)
			must.OK(t, same.WriteLines(&again))
			if kept.String() != again.String() {
				t.Errorf("%s is read again as %s", kept.String(), again.String())
			}
		})
	})
}
