package cli

import "github.com/spf13/cobra"

func (s *session) serverCommand() *cobra.Command {
	return &cobra.Command{Use: "server", Short: "Run a node", RunE: func(*cobra.Command, []string) error {
		return &Failure{Exit: ExitFail, Code: "UNSUPPORTED", What: "not available yet"}
	}}
}
