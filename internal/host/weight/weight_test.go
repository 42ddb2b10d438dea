// SPDX-License-Identifier: MIT

package weight

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"isolio/internal/failure"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Values
		line string // String's, "" for an error
	}{
		{"default 100\n", Values{Default: 100}, "100"},
		{"250\n", Values{Default: 250}, "250"}, // io.bfq.weight before Linux 5.4
		{"default 200\n259:0 500\n8:0 10\n", Values{200, map[string]Value{"259:0": 500, "8:0": 10}}, "200, 259:0 500, 8:0 10"},
		{"", Values{Default: 100}, "100"},
		{"default sum\n259:0 500\n8:0 sum\n", Values{Sum, map[string]Value{"259:0": 500, "8:0": Sum}}, "sum, 259:0 500, 8:0 sum"},
		{"sum\n", Values{Default: Sum}, "sum"},
		{"default Sum\n", Values{}, ""},
		{"default -1\n", Values{}, ""}, // what Sum is here
		{"default x\n", Values{}, ""},
		{"8:0 1 2\n", Values{}, ""},
		{", 0\n", Values{}, ""},
		{"8: 0\n", Values{}, ""},
	} {
		got, err := Parse(tt.text)
		switch {
		case tt.line == "" && err == nil:
			t.Errorf("Parse(%q) = %v, want an error", tt.text, got)
		case tt.line != "" && (err != nil || got.Default != tt.want.Default || !maps.Equal(got.Devices, tt.want.Devices) || got.String() != tt.line):
			t.Errorf("Parse(%q) = %q, %v; want %q", tt.text, got, err, tt.line)
		}
	}
	v := Values{200, map[string]Value{"259:0": 500}}
	if v.On("259:0") != 500 || v.On("8:0") != 200 {
		t.Errorf("On: %d and %d", v.On("259:0"), v.On("8:0"))
	}
	if !v.Said() || (Values{Default: 100}).Said() || !(Values{100, map[string]Value{"8:0": 100}}).Said() || !(Values{Default: Sum}).Said() {
		t.Error("Said")
	}
}

// JSON has a number, or the word.
func TestValueJSON(t *testing.T) {
	type document struct {
		A Value            `json:"a,omitempty"`
		B map[string]Value `json:"b"`
	}
	text, err := json.Marshal(document{Sum, map[string]Value{"x": 300, "y": Sum}})
	if want := `{"a":"sum","b":{"x":300,"y":"sum"}}`; err != nil || string(text) != want {
		t.Fatalf("Marshal = %s, %v; want %s", text, err, want)
	}
	var back document
	if err := json.Unmarshal(text, &back); err != nil || back.A != Sum || !maps.Equal(back.B, map[string]Value{"x": 300, "y": Sum}) {
		t.Errorf("Unmarshal = %+v, %v", back, err)
	}
	for _, bad := range []string{`"Sum"`, `"300"`, `-1`, `1.5`, `{}`} {
		v := Value(7)
		if err := json.Unmarshal([]byte(bad), &v); err == nil || v != 7 {
			t.Errorf("%s becomes %v, %v; want an error", bad, v, err)
		}
	}
}

func TestActing(t *testing.T) {
	for _, tt := range []struct {
		scheduler string
		iocost    bool
		want      []Mechanism
	}{
		{"none", false, nil},
		{"mq-deadline", false, nil},
		{"kyber", false, nil}, // not ours
		{"kyber-fairness", false, []Mechanism{Kyber}},
		{"bfq", true, []Mechanism{BFQ, IOCost}},
		{"none", true, []Mechanism{IOCost}},
	} {
		if got := Acting(tt.scheduler, tt.iocost); !slices.Equal(got, tt.want) {
			t.Errorf("Acting(%s, %v) = %v, want %v", tt.scheduler, tt.iocost, got, tt.want)
		}
	}
	for _, m := range Mechanisms() {
		if Of(m.File()) != m {
			t.Errorf("Of(%s) = %q", m.File(), Of(m.File()))
		}
	}
	for n, ok := range map[Value]bool{0: false, 1: true, 1000: true, 1001: false, Sum: false} {
		if err := BFQ.Check(n); (err == nil) != ok || (err != nil && failure.Code(err) != failure.Usage) {
			t.Errorf("bfq: Check(%s) = %v", n, err)
		}
	}
	if err := Kyber.Check(Sum); err != nil {
		t.Errorf("kyber-fairness: Check(sum) = %v", err)
	}
}

// What runc, crun and systemd were seen to write for --blkio-weight x.
func TestScales(t *testing.T) {
	for _, tt := range []struct{ x, runc, crun int }{
		{10, 1, 10}, {20, 102, 20}, {50, 405, 50}, {100, 910, 100}, {200, 1920, 1200}, {500, 4950, 4500}, {750, 7475, 7250}, {1000, 10000, 10000},
	} {
		if got := IOFromOCI(tt.x); got != tt.runc {
			t.Errorf("IOFromOCI(%d) = %d, want %d", tt.x, got, tt.runc)
		}
		if got := SystemdFromBFQ(tt.x); got != tt.crun {
			t.Errorf("SystemdFromBFQ(%d) = %d, want %d", tt.x, got, tt.crun)
		}
	}
	for io, want := range map[int]int{1: 1, 100: 100, 200: 109, 666: 151, 10000: 1000} {
		if got := BFQFromSystemd(io); got != want {
			t.Errorf("BFQFromSystemd(%d) = %d, want %d", io, got, want)
		}
	}
	for x := OCIMin; x <= OCIMax; x++ {
		if got := OCIFromIO(IOFromOCI(x)); got != x {
			t.Errorf("%d comes back from io.weight as %d", x, got)
		}
		if got := BFQFromSystemd(SystemdFromBFQ(x)); got != x {
			t.Errorf("%d comes back from IOWeight as %d", x, got)
		}
	}
}

// crun18 is what is found of a container that crun 1.8 started with
// --blkio-weight 200, without bfq's files.
func crun18(io, inner int) Evidence {
	return Evidence{Container: true, ByCrun: true, SpecRead: true, OCI: 200, IO: io, InnerIO: inner}
}

func TestDecode(t *testing.T) {
	for _, tt := range []struct {
		name string
		e    Evidence
		want Asked
	}{
		{"nobody asked", Evidence{BFQ: 100, IO: 100}, Asked{Weight: 100}},
		{"no file at all", Evidence{}, Asked{Weight: 100}},
		{"systemd-run -p IOWeight=200, with bfq", Evidence{BFQ: 109, IO: 200}, Asked{200, "io.weight", 200, BySystemd, "IOWeight=200"}},
		{"systemd-run -p IOWeight=50", Evidence{IO: 50}, Asked{50, "io.weight", 50, BySystemd, "IOWeight=50"}},
		{"echo 300 > io.bfq.weight", Evidence{BFQ: 300, IO: 100}, Asked{300, "io.bfq.weight", 300, ByFile, "written to io.bfq.weight"}},
		{"docker, bfq's file there", Evidence{Container: true, BFQ: 200, IO: 100}, Asked{200, "io.bfq.weight", 200, ByRuntime, "--blkio-weight 200"}},
		{"docker, bfq not loaded", Evidence{Container: true, IO: 1920}, Asked{200, "io.weight", 1920, ByRuntime, "--blkio-weight 200"}},
		{"docker, bfq loaded later", Evidence{Container: true, BFQ: 100, IO: 1920}, Asked{200, "io.weight", 1920, ByRuntime, "--blkio-weight 200"}},
		{"podman with crun, bfq's file there", Evidence{Container: true, ByCrun: true, BFQ: 200, IO: 1200, SpecRead: true, OCI: 200},
			Asked{200, "io.bfq.weight", 200, ByRuntime, "--blkio-weight 200"}},
		{"the same, specification not found", Evidence{Container: true, ByCrun: true, BFQ: 200, IO: 1200}, Asked{200, "io.bfq.weight", 200, ByRuntime, "--blkio-weight 200"}},
		{"podman with crun, bfq not loaded", Evidence{Container: true, ByCrun: true, IO: 1200, SpecRead: true, OCI: 200},
			Asked{200, "io.weight", 1200, ByRuntime, "--blkio-weight 200"}},
		{"the same, specification not found", Evidence{Container: true, ByCrun: true, IO: 1200}, Asked{200, "io.weight", 1200, ByRuntime, "--blkio-weight 200"}},
		{"systemctl set-property on docker's scope", Evidence{Container: true, SpecRead: true, BFQ: 136, IO: 500}, Asked{500, "io.weight", 500, BySystemd, "IOWeight=500"}},
		{"systemctl set-property on crun's scope", Evidence{Container: true, ByCrun: true, SpecRead: true, OCI: 200, BFQ: 136, IO: 500},
			Asked{500, "io.weight", 500, BySystemd, "IOWeight=500"}},
		{"the same without bfq", Evidence{Container: true, ByCrun: true, SpecRead: true, OCI: 200, IO: 500}, Asked{500, "io.weight", 500, BySystemd, "IOWeight=500"}},
		{"podman update of crun's, bfq not loaded", Evidence{Container: true, ByCrun: true, SpecRead: true, OCI: 200, IO: 7250},
			Asked{750, "io.weight", 7250, ByRuntime, "--blkio-weight 750"}},
		{"podman update below 100", Evidence{Container: true, ByCrun: true, SpecRead: true, OCI: 200, IO: 50}, Asked{50, "io.weight", 50, ByRuntime, "--blkio-weight 50"}},
		{"crun 1.8 when it starts", crun18(1200, 1920), Asked{200, "io.weight", 1200, ByRuntime, "--blkio-weight 200"}},
		{"podman update with it", crun18(1200, 2930), Asked{300, "container/io.weight", 2930, ByRuntime, "--blkio-weight 300"}},
		{"the same, with bfq's file", Evidence{Container: true, ByCrun: true, SpecRead: true, OCI: 200, BFQ: 200, IO: 1200, InnerBFQ: 300, InnerIO: 100},
			Asked{300, "container/io.bfq.weight", 300, ByRuntime, "--blkio-weight 300"}},
		{"the same, started without a weight", Evidence{Container: true, ByCrun: true, SpecRead: true, IO: 100, InnerIO: 2930},
			Asked{300, "container/io.weight", 2930, ByRuntime, "--blkio-weight 300"}},
		{"podman update with it, then daemon-reload that resets the scope", crun18(100, 2930), Asked{300, "container/io.weight", 2930, ByRuntime, "--blkio-weight 300"}},
		{"podman update with it, then systemctl set-property", crun18(500, 2930), Asked{500, "io.weight", 500, BySystemd, "IOWeight=500"}},
		{"podman update with newer ones, that give it to both", crun18(2300, 2930), Asked{300, "io.weight", 2300, ByRuntime, "--blkio-weight 300"}},
		{"crun 1.8, specification not found", Evidence{Container: true, ByCrun: true, IO: 1200, InnerIO: 2930}, Asked{200, "io.weight", 1200, ByRuntime, "--blkio-weight 200"}},
		{"systemd was told another than the file has", Evidence{SystemdAsked: true, ToldIO: 400, IO: 300}, Asked{400, "systemd", 0, BySystemd, "IOWeight=400"}},
		{"bfq's scale, and no io.weight", Evidence{SystemdAsked: true, ToldIO: 200, BFQ: 109}, Asked{200, "systemd", 0, BySystemd, "IOWeight=200"}},
		{"the older BlockIOWeight", Evidence{SystemdAsked: true, ToldBlockIO: 1000, IO: 200}, Asked{200, "io.weight", 200, BySystemd, "BlockIOWeight=1000"}},
		{"the least BlockIOWeight", Evidence{SystemdAsked: true, ToldBlockIO: 1, IO: 1}, Asked{1, "io.weight", 1, BySystemd, "BlockIOWeight=1"}},
		{"systemd was told nothing", Evidence{SystemdAsked: true, IO: 300}, Asked{300, "io.weight", 300, ByFile, "written to io.weight"}},
		{"docker update after the start", Evidence{Container: true, SpecRead: true, OCI: 200, BFQ: 300, IO: 100}, Asked{300, "io.bfq.weight", 300, ByRuntime, "--blkio-weight 300"}},
	} {
		if got := tt.e.Decode(); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
