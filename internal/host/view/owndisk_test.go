// SPDX-License-Identifier: MIT

package view

import (
	"reflect"
	"testing"
	"unicode/utf8"

	"isolio/internal/host/usage"
)

// Two cgroups are active unless it is said otherwise: api, of few requests, and bulk.
func TestOwnDisk(t *testing.T) {
	api := usage.Turn{Outstanding: 4, DepthMilli: 3900}
	bulk := usage.Turn{Awaited: true, Outstanding: 128, DepthMilli: 127000}
	owed := api
	owed.OwedUS = 3100
	ahead := bulk
	ahead.AheadBytes = 1000
	quiet := api
	quiet.Outstanding = 0
	both := []string{"api", "bulk"}
	few := &OwnDisk{Situation: OwnDepth, Depth: 3.9}
	for _, tt := range []struct {
		what     string
		groups   []string
		turns    []usage.Turn
		isOpen   bool
		group    string
		isActive bool
		want     *OwnDisk
		words    string
	}{
		{"few requests", both, []usage.Turn{api, bulk}, false, "api", true, few, "limited by its own depth: keeps 3.9 outstanding"},
		{"owed", both, []usage.Turn{owed, bulk}, false, "api", true, &OwnDisk{Situation: Owed, Depth: 3.9, OwedMS: 3.1}, "owed 3.1 ms: others give way to it"},
		{"for another", both, []usage.Turn{owed, bulk}, false, "bulk", true, &OwnDisk{Situation: GivesWay, Depth: 127, GivesWayTo: []string{"api"}}, "gives way to API"},
		{"for another, and ahead", both, []usage.Turn{owed, ahead}, false, "bulk", true, &OwnDisk{Situation: GivesWay, Depth: 127, GivesWayTo: []string{"api"}}, "gives way to API"},
		{"for several", []string{"api", "bulk", "db"}, []usage.Turn{owed, bulk, owed}, false, "bulk", true,
			&OwnDisk{Situation: GivesWay, Depth: 127, GivesWayTo: []string{"api", "db"}}, "gives way to API and 1 more"},
		{"few requests beside one that is owed", []string{"api", "db"}, []usage.Turn{api, owed}, false, "api", true, few, "limited by its own depth: keeps 3.9 outstanding"},
		{"two are owed", []string{"api", "db"}, []usage.Turn{owed, owed}, false, "db", true, &OwnDisk{Situation: Owed, Depth: 3.9, OwedMS: 3.1}, "owed 3.1 ms: others give way to it"},
		{"alone, so none gives way", []string{"api"}, []usage.Turn{owed}, true, "api", true, few, "limited by its own depth: keeps 3.9 outstanding"},
		{"less than its own disk takes", both, []usage.Turn{{DepthMilli: 3900, Outstanding: 4, OwedUS: -5}, bulk}, false, "bulk", true, &OwnDisk{Situation: HasShare, Depth: 127}, "has its share"},
		{"a lead ahead", both, []usage.Turn{api, ahead}, false, "bulk", true, &OwnDisk{Situation: WaitsTurn, Depth: 127}, "waits its turn"},
		{"a lead ahead, in a probe", both, []usage.Turn{api, ahead}, true, "bulk", true, &OwnDisk{Situation: HasShare, Depth: 127}, "has its share"},
		{"between two requests", both, []usage.Turn{quiet, bulk}, false, "api", true, few, "limited by its own depth: keeps 3.9 outstanding"},
		{"what the clock has kept", both, []usage.Turn{quiet, bulk}, false, "api", false, &OwnDisk{Situation: Idle}, "idle now"},
		{"not in the clock", both, []usage.Turn{api, bulk}, false, "web", true, &OwnDisk{Situation: Idle}, "idle now"},
		{"a cgroup inside", []string{"api/inner", "bulk"}, []usage.Turn{api, bulk}, false, "api", true, few, "limited by its own depth: keeps 3.9 outstanding"},
		{"several inside tell of themselves", []string{"api/a", "api/b"}, []usage.Turn{api, bulk}, false, "api", true, nil, ""},
		{"several inside, and its own", []string{"api/a", "api/b", "api"}, []usage.Turn{bulk, bulk, api}, false, "api", true, few, "limited by its own depth: keeps 3.9 outstanding"},
		{"another whose name begins alike", []string{"api2"}, []usage.Turn{bulk}, false, "api", false, &OwnDisk{Situation: Idle}, "idle now"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			c := clock{&usage.Clock{LeadBytes: 1000, IsOpen: tt.isOpen, Turns: tt.turns}, tt.groups}
			got := ownDisk(c, tt.group, tt.isActive)
			if !reflect.DeepEqual(got, tt.want) {
				t.Fatalf("%+v, want %+v", got, tt.want)
			}
			if got == nil {
				return
			}
			words := got.words(func(string) string { return "API" })
			if words != tt.words {
				t.Errorf("%q, want %q", words, tt.words)
			}
			// A table of 80 columns has room for a name and a disk beside it.
			if n := utf8.RuneCountInString(words); n > 52 {
				t.Errorf("%q has %d characters", words, n)
			}
		})
	}
}
