/*
Copyright The Kubernetes Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

// Command tree composes the work tree that the binaries are built from: Kubernetes as it was released, with what this
// repository adds and changes laid over it. It writes edits made there back, and checks that nothing is lost on the way.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() {
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "tree",
		Short:         "Compose, save and verify _output/tree",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	add := func(name, short string, run func(*workspace) error) {
		root.AddCommand(&cobra.Command{
			Use:   name,
			Short: short,
			Args:  cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				top, err := gitAt(".").run("rev-parse", "--show-toplevel")
				if err != nil {
					return err
				}
				return run(&workspace{root: strings.TrimSpace(top), fetch: downloadModules, out: cmd.OutOrStdout()})
			},
		})
	}
	add("compose", "Make _output/tree from upstream and the overlay", (*workspace).compose)
	add("save", "Write edits made in _output/tree into the overlay", (*workspace).save)
	add("verify", "Check the overlay, and print the line budget", (*workspace).verify)
	add("rebase", "Carry patches over to upstream files that changed, after go.mod was moved to another release", (*workspace).rebase)
	return root
}
