// SPDX-License-Identifier: MIT

package result

import (
	"bytes"
	"strings"
	"testing"

	"isolio/internal/lab/experiment"
)

// What containers have is divided by what they have alone on disks of their own.
func TestOwnDisk(t *testing.T) {
	e, err := experiment.Parse("x", []byte(`name = "x"
question = "Has each what it would have alone?"
schedulers = ["none", "bfq", "kyber"]
own_disk = true
duration_s = 2
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
[[container]]
name = "api"
weight = 800
[[container]]
name = "bulk"
weight = 100
count = 2
[[expect]]
scheduler = "bfq"
metrics = ["own_disk:api", "own_disk_p99:bulk", "own_disk_least", "own_disk_p99_most"]
max = 1
[[expect]]
scheduler = "kyber"
metric = "own_disk_p99_most"
max = 9
`))
	if err != nil {
		t.Fatal(err)
	}
	container := func(name string, bytesPS, p99 float64) Container {
		c := Container{Name: name, BytesPS: bytesPS, IOPS: bytesPS / 4096}
		if p99 > 0 {
			c.Read = &Direction{BytesPS: bytesPS, IOPS: bytesPS / 4096, Lat: Latency{P99: p99}}
		}
		return c
	}
	bulk := func(first, second, p99 float64) Container {
		c := container("bulk", first+second, p99)
		c.Members = NewMembers([]float64{first, second})
		return c
	}
	run := func(name, scheduler string, of ...Container) Run {
		r := Run{Case: name, Scheduler: scheduler, Containers: of}
		r.Sum()
		return r
	}
	refs := e.OwnDisks()
	runs := []Run{
		run("", "none", container("api", 400, 4000), bulk(300, 300, 100)),
		run("", "bfq", container("api", 1000, 1500), bulk(150, 90, 800)),
		run("", "kyber", container("api", 0, 0), bulk(400, 400, 100)),
		run(refs[0].Name, "none", container("api", 800, 1000)),
		run(refs[1].Name, "none", container("bulk", 100, 400)),
	}
	d, err := Merge(e, runs)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Runs) != 3 {
		t.Fatalf("%d runs, want 3: references are not the document's", len(d.Runs))
	}
	for i, want := range []struct{ api, apiP99, bulk, bulkP99, least, most float64 }{
		{0.5, 4, 3, 0.25, 0.5, 4},
		{1.25, 1.5, 1.2, 2, 0.9, 2}, // the second one of bulk has 90 of 100
	} {
		r := &d.Runs[i]
		for what, v := range map[string]struct {
			got  *float64
			want float64
		}{
			"api": {r.Containers[0].OwnDisk, want.api}, "api's p99": {r.Containers[0].OwnDiskP99, want.apiP99},
			"bulk": {r.Containers[1].OwnDisk, want.bulk}, "bulk's p99": {r.Containers[1].OwnDiskP99, want.bulkP99},
			"least": {r.OwnDiskLeast, want.least}, "most": {r.OwnDiskP99Most, want.most},
		} {
			if v.got == nil || !near(*v.got, v.want) {
				t.Errorf("%s: %s is %v, want %g", r.Scheduler, what, v.got, v.want)
			}
		}
	}
	// What completed nothing has a rate of 0 and no p99, so that the highest is not known.
	if r := &d.Runs[2]; r.OwnDiskLeast == nil || *r.OwnDiskLeast != 0 || r.Containers[0].OwnDiskP99 != nil || r.OwnDiskP99Most != nil {
		t.Errorf("a container that got nothing: %+v", r)
	}
	var verdicts []string
	for _, v := range d.Verdicts {
		got := "-"
		if v.Got != nil {
			got = experiment.Figure(*v.Got)
		}
		verdicts = append(verdicts, v.Metric+" "+got)
	}
	if got := strings.Join(verdicts, ", "); got != "own_disk:api 1.25, own_disk_p99:bulk 2, own_disk_least 0.9, own_disk_p99_most 2, own_disk_p99_most -" {
		t.Errorf("verdicts: %s", got)
	}
	var table, lines bytes.Buffer
	if err := d.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	const want = `
                        rate / p99, over a disk of its own
scheduler        worst          api         bulk
none       0.50 / 4.00  0.50 / 4.00  3.00 / 0.25
bfq        0.90 / 2.00  1.25 / 1.50  1.20 / 2.00
kyber         0.00 / -     0.00 / -  4.00 / 0.25
`
	if !strings.Contains(table.String(), want) {
		t.Errorf("table:\n%s\nwant in it\n%s", table.String(), want)
	}
	// As it is archived.
	if err := d.WriteLines(&lines); err != nil {
		t.Fatal(err)
	}
	if back, err := Read(&lines); err != nil || *back.Runs[1].OwnDiskLeast != 0.9 || *back.Runs[1].Containers[1].OwnDiskP99 != 2 {
		t.Errorf("read back: %+v, %v", back, err)
	}
	// On a disk of the host's there are no references.
	if d, err = Merge(e, runs[:3]); err != nil || d.Runs[0].OwnDiskLeast != nil || d.Verdicts[2].Got != nil {
		t.Errorf("without references: %+v, %v", d, err)
	}
}

// A program's operations count, and else the end of a job that ends; reads, and else calls of
// fsync before writes, which may only be to memory.
func TestOwnDiskOfOtherLoads(t *testing.T) {
	lat := func(iops, p99 float64) *Direction { return &Direction{IOPS: iops, Lat: Latency{P99: p99}} }
	for _, tt := range []struct {
		name      string
		c, alone  Container
		rate, p99 float64
	}{
		{"ends", Container{BytesPS: 5, FinishMS: new(2000.0), Write: lat(1, 30)}, Container{BytesPS: 5, FinishMS: new(1500.0), Write: lat(1, 20)}, 0.75, 1.5},
		{"counts operations", Container{BytesPS: 40, FinishMS: new(8000.0), Operations: lat(10, 30)},
			Container{BytesPS: 40, FinishMS: new(8001.0), Operations: lat(20, 10)}, 0.5, 3},
		{"syncs", Container{BytesPS: 3, Write: lat(9, 9), Sync: lat(9, 80)}, Container{BytesPS: 2, Write: lat(9, 1), Sync: lat(9, 20)}, 1.5, 4},
	} {
		if tt.c.compare(&tt.alone); *tt.c.OwnDisk != tt.rate || *tt.c.OwnDiskP99 != tt.p99 {
			t.Errorf("%s: rate %g, p99 %g", tt.name, *tt.c.OwnDisk, *tt.c.OwnDiskP99)
		}
	}
}
