// SPDX-License-Identifier: MIT

package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command says what it does in one line without a full stop, shows itself in an
// example, and describes each of its flags.
func TestHelp(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: Short is %q", cmd.CommandPath(), cmd.Short)
		}
		if !cmd.HasSubCommands() && !strings.Contains(cmd.Example, "  "+cmd.CommandPath()) {
			t.Errorf("%s: no example of it: %q", cmd.CommandPath(), cmd.Example)
		}
		for _, name := range []string{"json", "root"} {
			if flag := cmd.Flags().Lookup(name); flag != nil && flag.Usage == "" {
				t.Errorf("%s: --%s has no description", cmd.CommandPath(), name)
			}
		}
	}
	visit(Command())
}
