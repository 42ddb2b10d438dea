// SPDX-License-Identifier: MIT

package target

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"

	"isolio/internal/must"
)

// everyKey wants all.
func everyKey(string) bool { return true }

// What is picked of an object, with all keys wanted, is what encoding/json takes.
func FuzzPicked(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, ` {"a":"b","c":null} `, `{"a\"}":"\\","\u00e9":"\ud83d\ude00","":"\ud800"}`, `{"a":"1","a":"2"}`,
		`{ "a" : "b" , "c":	"d"}`, `[]`, `"a"`, `1`, `{"a":1}`, `{"a":{"b":"c"}}`, `{"a":["b"],"c":"d"}`, `{"a":true}`, "{\"a\":\"\xff\"}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var want map[string]string
		wrong := json.Unmarshal([]byte(text), &want)
		p := picked{want: everyKey}
		err := json.Unmarshal([]byte(text), &p)
		if (err == nil) != (wrong == nil) || err == nil && !maps.Equal(p.all, want) {
			t.Errorf("%q: picked %v, %v; want %v, %v", text, p.all, err, want, wrong)
		}
	})
}

func TestPickedIsWhatIsWanted(t *testing.T) {
	p := picked{want: func(key string) bool { return key == "b" }}
	if err := json.Unmarshal([]byte(`{"a":"1","b":"2","c":"3"}`), &p); err != nil || !maps.Equal(p.all, map[string]string{"b": "2"}) {
		t.Errorf("%v, %v", p.all, err)
	}
	if all := pickedFrom("not JSON", everyKey); all != nil {
		t.Errorf("of no object: %v", all)
	}
}

// Labels and annotations that nothing asks for take no memory, not even while their file
// is read.
func TestUnwantedLabelsTakeNoMemory(t *testing.T) {
	labels := map[string]string{"tier": "gold"}
	for i := range 100 {
		labels[fmt.Sprint("label", i)] = strings.Repeat("x", 64<<10)
	}
	asText, err := json.Marshal(labels)
	must.OK(t, err)
	d := &disk{keep: func(key string) bool { return key == "tier" }}
	for name, one := range map[string]struct {
		parse func(text []byte) (Container, error)
		text  string
	}{
		"docker": {d.dockerConfig, `{"ID":"1","Config":{"Labels":` + string(asText) + `}}`},
		"podman": {d.storageSpec, `{"annotations":` + string(asText) + `}`},
	} {
		text, c := []byte(one.text), Container{}
		took := allocated(func() { c, err = one.parse(text) })
		if err != nil || len(c.Labels)+len(c.Annotations) != 1 {
			t.Fatalf("%s: %v, %v", name, c, err)
		}
		if took > 64<<10 {
			t.Errorf("%s: %d KB are allocated", name, took>>10)
		}
	}
}

// allocated is how many bytes do allocates.
func allocated(do func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}
