package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

func (s *session) whyCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use:   use + " JOB",
		Short: "Explain why a job isn't running",
		Long: `Lists every reason that a job isn't running, most important first, and when it will
run if it only has to wait.`,
		Example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB -o json | jq -r '.reasons[].code'`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			return show(c.Context(), s, call{method: "GET", path: pathf("/jobs/%s/why", ids[0]), repeatable: true}, s.printWhy)
		},
	}
}

func (s *session) printWhy(w io.Writer, v *wire.Why, _ time.Time) {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format(time.RFC3339)
	}
	fmt.Fprintf(w, "%s is %s\n\n", v.JobID, v.State)
	rows := make([][]string, len(v.Reasons))
	for i, r := range v.Reasons {
		rows[i] = []string{string(r.Code), at(r.Until), r.Message}
	}
	s.table(w, []string{"REASON", "UNTIL", "WHAT"}, rows)
	if !v.ETA.IsZero() {
		fmt.Fprintf(w, "\nIt can run from %s.\n", at(v.ETA))
	}
}
