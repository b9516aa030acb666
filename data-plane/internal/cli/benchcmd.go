package cli

import "github.com/spf13/cobra"

func (s *session) benchCommand() *cobra.Command {
	return &cobra.Command{Use: "bench", Short: "Measure a server like a stranger would", RunE: func(*cobra.Command, []string) error {
		return &Failure{Exit: ExitFail, Code: "UNSUPPORTED", What: "not available yet"}
	}}
}
