// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"isolio/internal/testtree"
)

// A shell completes what an experiment has, kernels that are there, and disks.
func TestCompletionsOfTheLab(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) { putFile(t, dir, name, text) }
	put("x.toml", `name = "x"
question = "Which?"
schedulers = ["none", "bfq"]
duration_s = 2.0
[device]
kind = "null_blk"
completion_us = 1000
tags = 32
[job]
rw = "randread"
[[container]]
name = "a"
weight = 100
[[case]]
name = "one"
[[case]]
name = "two"
`)
	put("build/kernel/6.1/vmlinuz", "")
	put("build/kernel/half/release", "")
	put("sys/block/sda/dev", "8:0\n")
	put("sys/block/sda/size", "8388608\n")
	put("sys/block/sda/queue/scheduler", "[none] mq-deadline\n")
	put("proc/self/mountinfo", "36 35 8:0 / /mnt rw - ext4 /dev/sda rw\n")
	file := filepath.Join(dir, "x.toml")
	for words, want := range map[string]string{
		"lab " + file + " --cases |":                   "one two",
		"lab " + file + " --cases |one,":               "one,two",
		"bench " + file + " --schedulers |":            "none bfq",
		"lab --cases |":                                "",
		"lab absent --cases |":                         "",
		"lab --build " + dir + "/build --kernel |":     "6.1",
		"lab x --jobs |":                               "",
		"bench x --root " + dir + "/absent --device |": "",
	} {
		before, last, _ := strings.Cut(words, "|")
		var out, said bytes.Buffer
		args := append([]string{"__completeNoDesc"}, strings.Fields(before)...)
		if code := Run(context.Background(), append(args, last), strings.NewReader(""), &out, &said); code != 0 {
			t.Fatalf("%s: %d, %s", words, code, said.String())
		}
		lines := strings.Fields(out.String())
		slices.Reverse(lines)
		if len(lines) == 0 || lines[0] == ":0" { // a shell offers files then
			t.Errorf("%s: %q", words, out.String())
			continue
		}
		offered := lines[1:]
		slices.Reverse(offered)
		if got := strings.Join(offered, " "); got != want {
			t.Errorf("%s: offers %q, want %q", words, got, want)
		}
	}
}

// Of a disk that is in use a shell offers nothing to a user that may see that.
func TestCompletionsOfDisks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may see which programs use a disk")
	}
	root := t.TempDir()
	for name, text := range map[string]string{
		"sys/block/sda/dev": "8:0\n", "sys/block/sda/size": "8388608\n", "sys/block/sda/queue/scheduler": "[none]\n",
		"sys/block/sdb/dev": "8:16\n", "sys/block/sdb/size": "8388608\n", "sys/block/sdb/queue/scheduler": "[none]\n",
		"proc/self/mountinfo": "36 35 8:0 / /mnt rw - ext4 /dev/sda rw\n", "dev/sda": "", "dev/sdb": "",
	} {
		putFile(t, root, name, text)
	}
	if got, _ := completeFreeDisks(&root)(nil, nil, ""); !slices.Equal(got, []string{"sdb"}) {
		t.Errorf("offers %q, want sdb", got)
	}
}

// putFile writes a file below a directory.
func putFile(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	testtree.File(t, file, text)
}
