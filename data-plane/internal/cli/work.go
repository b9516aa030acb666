package cli

import "github.com/spf13/cobra"

func (s *session) workCommand(use string) *cobra.Command {
	return &cobra.Command{Use: use + " QUEUE... -- COMMAND [ARG...]", Short: "Run a command for each job", RunE: func(*cobra.Command, []string) error {
		return &Failure{Exit: ExitFail, Code: "UNSUPPORTED", What: "not available yet"}
	}}
}
