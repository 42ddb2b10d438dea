// SPDX-License-Identifier: MIT

package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	host "isolio/internal/host/command"
)

// A command that isolio prints must itself succeed. Each run of isolio in a script has its output
// searched for commands; each is run on the same tree at once, dry where it would change anything.

// remedyLog names the directory for what came of remedies; a process of isolio has a file of its own.
const remedyLog = "ISOLIO_TEST_REMEDIES"

// remedy is a command that isolio printed, and what came of it.
type remedy struct {
	Printed, By string
	// Outcome is "ran", "refused", or why it was not run.
	Outcome, Why string
}

// commands are those that remedies have, with what makes them harmless.
var commands = map[string][]string{
	"enable": {"--dry-run"}, "disable": {"--dry-run"}, "weight": {"--dry-run"}, "measure": {"--dry-run"},
	"daemon": {"--check"}, "explain": {"--interval", "0"}, "status": {"--interval", "0"}, "doctor": nil,
}

// alone are commands that need no word more.
var alone = map[string]bool{"daemon": true, "status": true, "doctor": true}

var (
	// printed is where a command in a text begins.
	printed = regexp.MustCompile(`isolio (enable|disable|weight|measure|daemon|explain|status|doctor)\b`)
	// words is what a command is made of, up to a character that is no part of it.
	words = regexp.MustCompile(`^(?:\\.|[^\\\x60;,()|'"\s]|'[^']*'|"[^"]*"| )*`)
	// shellLine is what is no command of isolio's, but a shell's.
	shellLine = regexp.MustCompile(`remedy: ((?:sudo )?(?:echo|systemctl|modprobe|apt-get|rm) [^;\n(]*)`)
	// writes is a command that writes to a file of the kernel's.
	writes = regexp.MustCompile(`^echo .* > ?(\S+)`)
	// blank is a word that a reader is to fill in.
	blank = regexp.MustCompile(`(^| )[A-Z]{1,8}( |$|=)`)
)

// runIsolio is the program, which tries what it printed.
func runIsolio(ctx context.Context, args []string) int {
	dir := os.Getenv(remedyLog)
	at := slices.Index(args, "--root")
	if dir == "" || at < 0 || at+1 == len(args) || slices.Contains(args, "--json") || args[0] == "help" || args[0] == "__complete" {
		return host.Run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	}
	var out, errs bytes.Buffer
	code := host.Run(ctx, args, os.Stdin, &out, &errs)
	// What is put back on stdout may be shell commands of a plan, whose paths are the test's.
	_, _ = os.Stdout.Write(out.Bytes())
	_, _ = os.Stderr.Write(errs.Bytes())
	text := errs.String()
	if !slices.Contains(args, "--dry-run") {
		text += out.String()
	}
	all := tryAll(text, args[at+1])
	for i := range all {
		all[i].By = strings.Join(args, " ")
	}
	if len(all) > 0 {
		doc, _ := json.Marshal(all) // of texts
		_ = os.WriteFile(filepath.Join(dir, fmt.Sprint(os.Getpid())), doc, 0o600)
	}
	return code
}

// tryAll runs the commands in a text on a tree, each once.
func tryAll(text, root string) []remedy {
	var all []remedy
	var seen []string
	root, err := filepath.Abs(root)
	if err != nil {
		return []remedy{{Printed: root, Outcome: "refused", Why: err.Error()}}
	}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "usage: ")
		for _, at := range printed.FindAllStringSubmatchIndex(line, -1) {
			verb := line[at[2]:at[3]]
			command, _, _ := strings.Cut(words.FindString(line[at[0]:]), ": ")
			command = strings.TrimRight(command, " .:")
			if command == "isolio "+verb && !alone[verb] || slices.Contains(seen, command) {
				continue // a mention
			}
			seen = append(seen, command)
			all = append(all, try(command, verb, root))
		}
		for _, match := range shellLine.FindAllStringSubmatch(line, -1) {
			if command := strings.TrimSpace(match[1]); !slices.Contains(seen, command) {
				seen = append(seen, command)
				all = append(all, tryShell(command, root))
			}
		}
	}
	return all
}

// try runs one command of isolio's.
func try(command, verb, root string) remedy {
	r := remedy{Printed: command, Outcome: "ran"}
	if blank.MatchString(command) {
		r.Outcome = "has a blank"
		return r
	}
	list, err := exec.Command("sh", "-c", "for word in "+strings.TrimPrefix(command, "isolio")+"; do printf '%s\\n' \"$word\"; done").Output() //nolint:gosec,noctx // isolio printed it
	args := append(strings.Split(strings.TrimSuffix(string(list), "\n"), "\n"), append([]string{"--root", root}, commands[verb]...)...)
	if verb == "weight" && len(args) == 5 { // without a number it shows
		args = args[:4]
	}
	var errs bytes.Buffer
	code := host.Run(context.Background(), args, strings.NewReader(""), &bytes.Buffer{}, &errs)
	switch {
	case err == nil && (code == 0 || (verb == "doctor" || verb == "status") && code != 2):
	case strings.Contains(errs.String(), "etc/isolio.toml:"):
		r.Outcome = "waits for a mistake in the rules to be corrected"
	case strings.Contains(errs.String(), "there is no module"), strings.Contains(errs.String(), "has no module"):
		r.Outcome = "needs a module that the tree has not"
	default:
		r.Outcome, r.Why = "refused", fmt.Sprintf("%v, exit %d: %s", err, code, errs.String())
	}
	return r
}

// tryShell has a shell read a command, and looks for the file that it writes.
func tryShell(command, root string) remedy {
	r := remedy{Printed: command, Outcome: "ran"}
	if out, err := exec.Command("sh", "-n", "-c", command).CombinedOutput(); err != nil { //nolint:gosec,noctx // isolio printed it, and nothing is run
		r.Outcome, r.Why = "refused", string(out)
	}
	if match := writes.FindStringSubmatch(command); match != nil && !strings.HasPrefix(match[1], `"`) {
		file := strings.Trim(match[1], "'")
		if _, err := os.Stat(filepath.Join(root, strings.TrimPrefix(file, root))); errors.Is(err, fs.ErrNotExist) {
			r.Outcome, r.Why = "refused", err.Error()
		}
	}
	return r
}

// checkRemedies reports what came of all remedies that were printed.
func checkRemedies(t *testing.T, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var all []remedy
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			counts[r.Outcome]++
			if r.Outcome == "refused" {
				t.Errorf("isolio %s\nprinted %q, which is refused: %s", r.By, r.Printed, r.Why)
			}
		}
	}
	t.Logf("remedies: %v", counts)
}
