// SPDX-License-Identifier: MIT

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"isolio/internal/cli"
	"isolio/internal/failure"
	"isolio/internal/host/demo"
)

func newDemoCommand() *cobra.Command {
	o := demo.Options{}
	load := 0
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a noisy neighbour on this host, on a model disk in memory",
		Long: `Show on this host what isolio does: a container that reads alone, beside one that reads
much, and beside the same with isolio. The disk is a model in memory, /dev/isolio-demo:
no disk of the host is touched. Each step says what happens and shows the commands.

It needs root, for a disk, two cgroups and modules. All of that is taken away at the end,
also after Ctrl-C. It takes three times --time, and some seconds.`,
		Example: `  isolio demo
  isolio demo --time 30s`,
		Args: cli.Exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Time < 100*time.Millisecond || o.Time > time.Hour {
				return failure.Usagef("--time: %s is out of range; allowed: 100ms to 1h", o.Time)
			}
			if o.Modules != "" {
				if _, err := os.Stat(filepath.Join(o.Modules, "modeldisk.ko")); err != nil {
					return failure.Usagef("--modules: %w", err)
				}
			}
			if cmd.Flags().Changed("load") {
				if load < 1 || load > 4096 {
					return failure.Usagef("--load: %d; allowed: 1 to 4096", load)
				}
				return demo.Send(cmd.Context(), cmd.OutOrStdout(), load, o.Time)
			}
			o.Out = cmd.OutOrStdout()
			if o.Program, err = os.Executable(); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			return demo.Run(cmd.Context(), o)
		},
	}
	cmd.Flags().DurationVar(&o.Time, "time", 10*time.Second, "how long each round takes")
	cmd.Flags().StringVar(&o.Modules, "modules", "", "load modules from `DIR`, not the installed ones")
	cmd.Flags().IntVar(&load, "load", 0, "send requests, as one of the containers")
	_ = cmd.Flags().MarkHidden("load") // the flag is there
	return cmd
}
