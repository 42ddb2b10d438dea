// SPDX-License-Identifier: MIT

package rule

import (
	"strings"
	"testing"

	"isolio/internal/fuzzlimit"
	"isolio/internal/host/target"
	"isolio/internal/host/weight"
)

// FuzzParse reads rules, and asks whether they are for a container whose names and
// labels others chose. An error is one line that begins with the file.
func FuzzParse(f *testing.F) {
	f.Add([]byte("metrics = \"127.0.0.1:9188\"\n[[rule]]\nname = \"db-*\"\nweight = 300\n[[rule]]\nlabel = \"tier=gold\"\ndevice = \"sda\"\nweight = 1\n"), "db-1", "tier", "gold")
	f.Add([]byte("[[rule]]\npod = \"shop/[a-z]*\"\nweight = 10000\n[[rule]]\nunit = \"nginx\"\nweight = 5\n"), "web", "a/b", "c/d")
	f.Add([]byte("[[rule]]\npod = \"shop/*\"\ndefault = 50\nmax_weight = 300\n"), "web", "a", "b")
	f.Add([]byte("[sla]\nreserve_pct = 5\nbest_effort = 3\nshare_by = \"bytes\"\n[[promise]]\nname = \"db\"\ndevice = \"sda\"\nread = \"5000 IOPS\"\nwrite = \"1.5 MiB/s\"\nblock = \"16 KiB\"\np99 = \"5 ms\"\ncount = 2\n"), "db", "a", "b")
	f.Add([]byte("[class.gold]\nweight = 800\nlabels = true\n[[rule]]\nunit = \"x\"\nweight = \"gold\"\n[[disk]]\ndevice = \"model:I*\"\nshare_by = \"time\"\nmax_wait_ms = 5\n"), "x", "isolio.class", "gold")
	f.Add([]byte("[class.\"a\\nb\"]\nweight = 1\n"), "", "", "")
	f.Add([]byte("[[disk]]\ndevice = \"wwn:0x5\"\n\"a\\nb\" = 1\n"), "", "", "")
	f.Add([]byte("rule = [{name = \"a\", weight = 0}]"), "a", "", "")
	f.Fuzz(func(t *testing.T, text []byte, name, key, value string) {
		fuzzlimit.Run(t, uint64(64<<20+10000*len(text)), func() {
			config, err := Parse("isolio.toml", text)
			if err != nil {
				if s := err.Error(); !strings.HasPrefix(s, "isolio.toml") || strings.Contains(s, "\n") {
					t.Errorf("%q is not one line about the file", s)
				}
				return
			}
			c := target.Container{Name: name, Pod: key, Namespace: value, Labels: map[string]string{key: value}, Annotations: map[string]string{value: key}}
			for _, r := range config.Rules {
				for _, n := range []int{int(r.Weight), r.Default, r.MaxWeight} {
					if n != int(weight.Sum) && (n < 0 || n > 10000) {
						t.Errorf("a rule has %d", n)
					}
				}
				if r.Weight == 0 && r.Default == 0 && r.MaxWeight == 0 {
					t.Errorf("%+v does nothing", r)
				}
				if r.ForContainer(c) && r.ForPod(c) {
					t.Errorf("%+v is for a container and for its pod", r)
				}
				_ = r.ForUnit(name)
			}
			for _, p := range config.Promises {
				if p.Read.RequestsPS(p.BlockBytes)+p.Write.RequestsPS(p.BlockBytes) <= 0 || p.Count < 1 || p.Device == "" || p.Selector() == "" || p.Line < 1 {
					t.Errorf("a promise is %+v", p)
				}
			}
			for name, class := range config.Classes {
				if class.Weight < 1 || class.Weight > 10000 || !className.MatchString(name) {
					t.Errorf("class %q is %+v", name, class)
				}
			}
			for _, d := range config.Disks {
				if d.Device == "" || d.Scheduler == "" || d.At.Line < 1 {
					t.Errorf("a disk is %+v", d)
				}
			}
			_ = config.Blind([]target.Container{c})
		})
	})
}
