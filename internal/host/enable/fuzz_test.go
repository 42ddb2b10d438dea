// SPDX-License-Identifier: MIT

package enable

import (
	"bytes"
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/must"
	"isolio/internal/plan"
)

// FuzzFiles plans on a machine whose record and rules, of isolio and of others, hold any text. An error is one line;
// what is planned writes below the machine's own directories.
func FuzzFiles(f *testing.F) {
	f.Add(`{"scheduler":"kyber-fairness","before":"none","nr_requests":64,"loaded":"kyber-fairness-iosched"}`, "# before: bfq\nACTION==\"add|change\", ENV{ID_WWN}==\"0x1\", ATTR{queue/scheduler}=\"kyber-fairness\"\n", "ATTR{queue/scheduler}=\"bfq\", GOTO=\"end\"\n", "0x1")
	f.Add(`{"before":"","scheduler":"rsd"}`, "ACTION==\"\", KERNEL==\"[\", ATTR{queue/scheduler}=\"\"", "RUN+=\"/bin/sh -c 'echo none > /sys/block/%k/queue/scheduler'\"", "a\nb")
	f.Add("", "", "", "")
	f.Fuzz(func(t *testing.T, note, own, other, wwn string) {
		root := machine(t, "[none] kyber-fairness rsd", "[none]", map[string]string{
			"run/isolio/enabled/sda.json": note, "etc/udev/rules.d/99-zz-isolio-0x1.rules": own,
			"usr/lib/udev/rules.d/60-other.rules": other, "run/udev/data/b8:0": "E:ID_WWN=" + wwn + "\n",
		})
		fuzzlimit.Run(t, uint64(8<<20+2000*(len(note)+len(own)+len(other)+len(wwn))), func() {
			for _, decide := range []func(Request) (*Plan, error){Enable, Disable} {
				p, err := decide(Request{Root: root, Device: "sda", Persist: true})
				if err != nil {
					if strings.Contains(err.Error(), "\n") {
						t.Errorf("%q is not one line", err)
					}
					continue
				}
				for _, s := range p.Steps {
					if s.Command == nil && (!strings.HasPrefix(s.Path, root+"/") || strings.Contains(s.Path, "/../")) {
						t.Errorf("it writes to %q", s.Path)
					}
				}
				var b bytes.Buffer
				must.OK(t, plan.Print(&b, p.Shown()))
			}
		})
	})
}
