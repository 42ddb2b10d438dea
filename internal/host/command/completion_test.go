// SPDX-License-Identifier: MIT

package command

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// noFiles is what cobra's completion ends with where a shell is to offer no files.
const noFiles = ":4"

// offered is what a shell offers after these words.
func offered(t *testing.T, words ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	if code := Run(context.Background(), append([]string{"__complete"}, words...), strings.NewReader(""), &out, &said); code != 0 {
		t.Fatalf("%q: %d, %s", words, code, said.String())
	}
	return strings.TrimSpace(out.String())
}

// A shell offers files where a command takes files, and only there.
func TestCompletionsOfFiles(t *testing.T) {
	root := "--root=" + t.TempDir()
	for _, words := range []string{"kmod check", "kmod load", "daemon --config", "enable --module", "sla plan --file", "status --root", "kmod btf x --output"} {
		if got := offered(t, append(strings.Fields(words), "")...); strings.HasSuffix(got, noFiles) {
			t.Errorf("%s: no files: %q", words, got)
		}
	}
	nr := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		if cmd.HasSubCommands() || fmt.Sprint(path) == "[bench]" || fmt.Sprint(path) == "[lab]" || fmt.Sprint(path) == "[report]" {
			return // of isolio-lab
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Value.Type() == "bool" || slices.Contains(takeFiles, "--"+flag.Name) || slices.Contains(takeFiles, cmd.CommandPath()+" --"+flag.Name) {
				return
			}
			nr++
			words := append(append([]string{}, path...), "--"+flag.Name, "")
			if cmd.Flags().Lookup("root") != nil {
				words = append(append(append([]string{}, path...), root), "--"+flag.Name, "")
			}
			if got := offered(t, words...); !strings.HasSuffix(got, noFiles) {
				t.Errorf("%q: %q", words, got)
			}
		})
		if strings.Contains(cmd.Use, "FILE") || strings.Contains(cmd.Use, "MODULE") || strings.Contains(cmd.Use, "KERNEL") || cmd.Name() == "header" {
			return
		}
		if got := offered(t, append(path, "")...); !strings.HasSuffix(got, noFiles) {
			t.Errorf("%s: %q", cmd.CommandPath(), got)
		}
	}
	visit(Root())
	if nr < 15 {
		t.Errorf("%d flags: there are more", nr)
	}
}
