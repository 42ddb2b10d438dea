// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"isolio/internal/must"
)

// A program that is built here has itself, Go and each of its modules in the document,
// and the same bytes each time.
func TestSBOM(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	program := filepath.Join(t.TempDir(), "isolio-results")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "../../cmd/isolio-results").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var b, again bytes.Buffer
	must.OK(t, write(&b, []string{program}))
	must.OK(t, write(&again, []string{program}))
	if b.String() != again.String() {
		t.Error("two documents of one program differ")
	}
	var d document
	must.OK(t, json.Unmarshal(b.Bytes(), &d))
	modules, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}{{end}}{{end}}", "../../cmd/isolio-results").Output()
	must.OK(t, err)
	for want := range strings.FieldsSeq(string(modules)) {
		if !strings.Contains(b.String(), `"pkg:golang/`+want+`"`) {
			t.Errorf("%s is not in it", want)
		}
	}
	ids := map[string]bool{d.SPDXID: true}
	for _, p := range d.Packages {
		if ids[p.SPDXID] {
			t.Errorf("%s is there twice", p.SPDXID)
		}
		ids[p.SPDXID] = true
		if p.SPDXID != "SPDXRef-go" && (len(p.Checksums) != 1 || len(p.Checksums[0].Value) != 64) {
			t.Errorf("%s has checksums %v", p.Name, p.Checksums)
		}
	}
	for _, r := range d.Relationships {
		if !ids[r.Of] || !ids[r.To] {
			t.Errorf("%+v is of something that is not there", r)
		}
	}
	if d.Creation.Created != "2023-11-14T22:13:20Z" || len(d.Packages) < 5 {
		t.Errorf("created %s, %d packages", d.Creation.Created, len(d.Packages))
	}
	none := filepath.Join(t.TempDir(), "none")
	must.OK(t, os.WriteFile(none, []byte("text"), 0o644))
	if err := write(&b, []string{none}); err == nil {
		t.Error("a text is a program")
	}
}
