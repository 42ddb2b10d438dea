// SPDX-License-Identifier: MIT

package rule

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"isolio/internal/failure"
	"isolio/internal/must"
	"isolio/internal/testtree"
)

// The files of the directory follow the file in the order of their names: its rules come
// first, and so win. A class may be used before it is read.
func TestLoadOfSeveralFiles(t *testing.T) {
	root := t.TempDir()
	testtree.Write(t, root, map[string]string{
		"etc/isolio.toml":               "metrics = \"127.0.0.1:9188\"\n[[rule]]\nname = \"db\"\nweight = \"gold\"\n",
		"etc/isolio.d/20-b.toml":        "[sla]\nreserve_pct = 20\n[[rule]]\nname = \"*\"\nweight = 20\n[class.gold]\nweight = 800\n",
		"etc/isolio.d/10-a.toml":        "\n[[rule]]\nname = \"d*\"\nweight = 10\n[sla]\nbest_effort = 3\n[[promise]]\nname = \"db\"\ndevice = \"sda\"\nread = \"5 IOPS\"\n",
		"etc/isolio.d/.#20-b.toml":      "an editor's\n",
		"etc/isolio.d/20-b.toml~":       "an editor's\n",
		"etc/isolio.d/README":           "for people\n",
		"etc/isolio.d/more/30-c.toml":   "nested\n",
		"etc/isolio.d/40-nothing.toml":  "",
		"etc/other.d/10-elsewhere.toml": "nri = \"off\"\n",
	})
	config, err := Load(root, "")
	must.OK(t, err)
	own := Place{File: "/etc/isolio.toml", Nr: 1, Line: 2, Own: true}
	a := Place{File: "/etc/isolio.d/10-a.toml", Nr: 1, Line: 2}
	b := Place{File: "/etc/isolio.d/20-b.toml", Nr: 1, Line: 3}
	if want := []Rule{{Name: "db", Weight: 800, From: "gold", At: own}, {Name: "d*", Weight: 10, At: a}, {Name: "*", Weight: 20, At: b}}; !reflect.DeepEqual(config.Rules, want) {
		t.Errorf("%+v", config.Rules)
	}
	if want := (SLA{ReservePct: 20, BestEffort: 3, ShareBy: "time", ObjectivePct: 99.9}); config.SLA != want || config.Metrics == "" || config.NRI != "" {
		t.Errorf("%+v", config)
	}
	if want := []ReadFile{{"/etc/isolio.toml", 1}, {"/etc/isolio.d/10-a.toml", 1}, {"/etc/isolio.d/20-b.toml", 1}, {"/etc/isolio.d/40-nothing.toml", 0}}; !reflect.DeepEqual(config.Files, want) {
		t.Errorf("%+v", config.Files)
	}
	if p := config.Promises; len(p) != 1 || p[0].File != filepath.Join(root, "etc/isolio.d/10-a.toml") || p[0].Line != 7 {
		t.Errorf("%+v", p)
	}
	if got := []string{own.Rule(), a.Rule(), a.FullRule()}; !reflect.DeepEqual(got, []string{"rule 1", "rule 1 of isolio.d/10-a.toml", "rule 1 of /etc/isolio.d/10-a.toml"}) {
		t.Errorf("%q", got)
	}
	// The file itself need not be there.
	must.OK(t, os.Remove(filepath.Join(root, "etc/isolio.toml")))
	if config, err := Load(root, ""); err != nil || len(config.Rules) != 2 {
		t.Errorf("%+v, %v", config.Rules, err)
	}
	if config, err := Load("", filepath.Join(root, "etc/other.toml")); err != nil || config.NRI != NoNRI {
		t.Errorf("another file's directory: %+v, %v", config, err)
	}
}

// What stands in two files is refused, with both places. A mistake has the place in its
// own file, and the first file's comes first.
func TestLoadRefuses(t *testing.T) {
	const own, a, b = "etc/isolio.toml", "etc/isolio.d/a.toml", "etc/isolio.d/b.toml"
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a rule":       {map[string]string{own: "[[rule]]\nname = \"x\"\nweight = 1\n", b: "\n[[rule]]\nname = \"x\"\nweight = 2\n"}, b + ":2: rule: matches the same as that in ROOT/" + own + ":1, which wins; allowed: one rule for each"},
		"a promise":    {map[string]string{a: "[[promise]]\nname=\"x\"\ndevice=\"sda\"\nread=\"1 IOPS\"\n", b: "[[promise]]\nname=\"x\"\ndevice=\"/dev/sda\"\nread=\"2 IOPS\"\n"}, b + ":1: promise: matches the same as that in ROOT/" + a + ":1, on the same disk; allowed: one promise for each, with read and write in it"},
		"a disk":       {map[string]string{a: "[[disk]]\ndevice=\"sda\"\n", b: "[[disk]]\ndevice=\"/dev/sda\"\n"}, b + ":1: disk: matches the same as that in ROOT/" + a + ":1, which wins; allowed: one table for each"},
		"a class":      {map[string]string{a: "[class.x]\nweight = 1\n", b: "\n\nclass.x.weight = 1\n"}, b + ":3: class.x: is in ROOT/" + a + ":1 as well; allowed: it in one of the files"},
		"an address":   {map[string]string{own: "metrics = \"\"\n", b: "metrics = \"127.0.0.1:1\"\n"}, b + ":1: metrics: is in ROOT/" + own + ":1 as well; allowed: it in one of the files"},
		"an objective": {map[string]string{own: "[sla]\nobjective_pct = 99.0\n", b: "[sla]\nobjective_pct = 98.0\n"}, b + ":2: sla.objective_pct: is in ROOT/" + own + ":2 as well; allowed: it in one of the files"},
		"a setting":    {map[string]string{own: "[sla]\nreserve_pct = 1.0\n", b: "[sla]\nreserve_pct = 2.0\n"}, b + ":2: sla.reserve_pct: is in ROOT/" + own + ":2 as well; allowed: it in one of the files"},
		"a mistake":    {map[string]string{own: "[[rule]]\nname = \"x\"\nweight = 1\n", b: "[[rule]]\nname = \"y\"\nweight = 0\n"}, b + ":3: rule.weight: 0 is out of range; allowed: an integer 1..10000, or \"sum\""},
		"two files":    {map[string]string{a: "\n\n[[rule]]\nname = \"x\"\n", b: "[[rule]]\nname = \"y\"\n"}, a + ":3: rule.weight: is missing; allowed: an integer 1..10000, or \"sum\"; or default, max_weight"},
		"no TOML":      {map[string]string{own: "", a: "[[rule]\n"}, a + ":1: "},
		"no file":      {map[string]string{own: "", "etc/isolio.d/a.toml/x": ""}, "is a directory"},
		"a key of it":  {map[string]string{a: "[[rule]]\nnime = \"x\"\n"}, a + ":2: rule.nime: unknown key; allowed: name, "},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			testtree.Write(t, root, tt.files)
			config, err := Load(root, "")
			if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(tt.want, "ROOT", root)) || failure.Code(err) != failure.Usage || !reflect.DeepEqual(config, Config{}) {
				t.Errorf("%+v, %v, want %s", config, err, tt.want)
			}
		})
	}
}

// Rules name classes where they have a weight.
func TestClasses(t *testing.T) {
	const classes = "[class.gold]\nweight = 800\n[class.bulk]\nweight = 20\nlabels = true\n"
	config, err := Parse("r.toml", []byte(classes+"[[rule]]\nunit = \"db\"\nweight = \"gold\"\n[[rule]]\npod = \"batch/*\"\ndefault = \"bulk\"\nmax_weight = 50\n"))
	must.OK(t, err)
	at := Place{File: "r.toml", Line: 1, Own: true}
	bulk := at
	bulk.Line = 3
	if want := map[string]Class{"gold": {Weight: 800, At: at}, "bulk": {Weight: 20, Labels: true, At: bulk}}; !reflect.DeepEqual(config.Classes, want) {
		t.Errorf("%+v", config.Classes)
	}
	if r := config.Rules; r[0].Weight != 800 || r[0].From != "gold" || r[1].Default != 20 || r[1].From != "bulk" || r[1].MaxWeight != 50 {
		t.Errorf("%+v", r)
	}
	if !config.Keeps("isolio.class") || (Config{Classes: map[string]Class{"gold": {Weight: 1}}}).Keeps("isolio.class") {
		t.Error("the label is kept where a class may be had by it, and only there")
	}
	for text, want := range map[string]string{
		"[[rule]]\nname = \"x\"\nweight = \"silver\"\n":                 `r.toml:8: rule.weight: "silver" is not a weight; allowed: an integer 1..10000, or "sum", or a class: "bulk", "gold"`,
		"[[rule]]\nname = \"x\"\ndefault = \"sum\"\n":                   `r.toml:8: rule.default: "sum" is not a weight; allowed: an integer 1..10000, or a class: "bulk", "gold"`,
		"[[rule]]\nname = \"x\"\ndefault = \"gold\"\nmax_weight = 50\n": `r.toml:8: rule.default: 800 is larger than max_weight, 50; allowed: no more than max_weight`,
		"[class.silver]\n":                     `r.toml:6: class.silver.weight: is missing; allowed: an integer 1..10000`,
		"[class.silver]\nweight = 20000\n":     `r.toml:7: class.silver.weight: 20000 is out of range; allowed: an integer 1..10000`,
		"[class.silver]\nlabel = true\n":       `r.toml:7: class.silver.label: unknown key; allowed: weight, labels`,
		"[class.sum]\nweight = 1\n":            `r.toml:6: class.sum: has a name that no class can have; allowed: letters, digits and _ . - , 63 at most; not "sum", not "default"`,
		"[class.\"a b\"]\nweight = 1\n":        `r.toml:6: class.a b: has a name that no class can have; allowed: letters, digits`,
		"[class.\"\\u001b[2J\"]\nweight = 1\n": `has a name that no class can have`,
	} {
		if _, err := Parse("r.toml", []byte(classes+text)); err == nil || !strings.Contains(err.Error(), want) || failure.Code(err) != failure.Usage {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

// A disk's table has the keys that its scheduler has.
func TestDisks(t *testing.T) {
	config, err := Parse("r.toml", []byte(`
[[disk]]
device = "model:INTEL SSDPE2KX*"
write_lat_nsec = 5000000
share_by = "time"
cost_model = "rbps=3200000000 riops=490000 wbps=1050000000 wiops=38000"

[[disk]]
device = "/dev/sdb"
scheduler = "sfq"
unit_kib = 0

[[disk]]
device = "wwn:0x5000c500"
scheduler = "keep"
`))
	at := func(nr, line int) Place { return Place{File: "r.toml", Nr: nr, Line: line, Own: true} }
	if want := []Disk{
		{"model:INTEL SSDPE2KX*", "kyber-fairness", []Tunable{{"share_by", "time"}, {"cost_model", "rbps=3200000000 riops=490000 wbps=1050000000 wiops=38000"}, {"write_lat_nsec", "5000000"}}, at(1, 2)},
		{"sdb", "sfq", []Tunable{{"unit_kib", "0"}}, at(2, 8)},
		{"wwn:0x5000c500", Keep, nil, at(3, 13)},
	}; err != nil || !reflect.DeepEqual(config.Disks, want) {
		t.Errorf("%+v, %v, want %+v", config.Disks, err, want)
	}
	const begin = "[[disk]]\ndevice = \"sda\"\n"
	for text, want := range map[string]string{
		"[[disk]]\nshare_by = \"time\"\n":                            `r.toml:1: disk.device: is missing; allowed: a name as in /sys/block, such as "nvme0n1"; or "wwn:NUMBER", "serial:NUMBER" or "model:PATTERN"`,
		"[[disk]]\ndevice = 5\n":                                     `r.toml:2: disk.device: has the wrong type; allowed: a string`,
		"[[disk]]\ndevice = \"uuid:5\"\n":                            `r.toml:2: disk.device: "uuid:5" is not a disk; allowed: `,
		"[[disk]]\ndevice = \"model:[\"\n":                           `r.toml:2: disk.device: "model:[" is not a disk; allowed: `,
		"[[disk]]\ndevice = \"serial: \"\n":                          `r.toml:2: disk.device: "serial: " is not a disk; allowed: `,
		"[disk]\ndevice = \"sda\"\n":                                 `r.toml:1: disk`,
		begin + "scheduler = \"cfq\"\n":                              `r.toml:3: disk.scheduler: "cfq" is not a scheduler; allowed: kyber-fairness, bfq, rsd, sfq, keep`,
		begin + "scheduler = 7\n":                                    `r.toml:3: disk.scheduler: "7" is not a scheduler; allowed: `,
		begin + "shareby = \"time\"\n":                               `r.toml:3: disk.shareby: unknown key; allowed: device, scheduler, share_by, cost_model, read_lat_nsec, `,
		begin + "unit_kib = 4\n":                                     `r.toml:3: disk.unit_kib: is not a tunable of kyber-fairness; allowed: device, scheduler, share_by, `,
		begin + "scheduler = \"keep\"\nshare_by = \"time\"\n":        `r.toml:4: disk.share_by: is not a tunable of keep; allowed: device, scheduler`,
		begin + "share_by = \"fair\"\n":                              `r.toml:3: disk.share_by: "fair" is none; allowed: bytes, iops, time`,
		begin + "share_by = 7\n":                                     `r.toml:3: disk.share_by: has the wrong type; allowed: bytes, iops, time`,
		begin + "min_total_pct = 101\n":                              `r.toml:3: disk.min_total_pct: 101 is out of range; allowed: an integer 0..100`,
		begin + "min_total_pct = \"45\"\n":                           `r.toml:3: disk.min_total_pct: has the wrong type; allowed: an integer 0..100`,
		begin + "cost_model = \"rbps=1\"\n":                          `r.toml:3: disk.cost_model: "rbps=1" is none; allowed: "auto", or "rbps=N riops=N wbps=N wiops=N" with bytes 100000..1000000000000 and requests 1..100000000 a second`,
		begin + "depth_pct = 45\n":                                   `r.toml:3: disk.depth_pct: unknown key; allowed: device, scheduler, share_by, `,
		begin + "age_th = 5\n":                                       `r.toml:3: disk.age_th: is not a tunable of kyber-fairness; allowed: `,
		begin + "scheduler = \"rsd\"\nage_th = 5\nmax_wait_ms = 5\n": `r.toml:5: disk.max_wait_ms: cannot be combined with age_th, which is found from it; allowed: one of them`,
		begin + "[[disk]]\ndevice = \"/dev/sda\"\n":                  `r.toml:3: disk: matches the same as that in line 1, which wins; allowed: one table for each`,
	} {
		if _, err := Parse("r.toml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) || failure.Code(err) != failure.Usage {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}
