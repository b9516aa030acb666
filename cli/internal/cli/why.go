package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
)

// whyView is why a job does not run; machines get the server's JSON.
type whyView struct {
	JobID   string    `json:"job_id"`
	State   string    `json:"state"`
	ETA     time.Time `json:"eta"`
	Reasons []struct {
		Code    string    `json:"code"`
		Message string    `json:"message"`
		Until   time.Time `json:"until"`
	} `json:"reasons"`
}

func (s *session) whyCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use:   use + " JOB",
		Short: "Explain why a job isn't running",
		Long: `Lists every reason that a job isn't running, most important first, and when it will
run if it only has to wait.`,
		Example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB -o json | jq -r '.reasons[].code'`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, ids []string) error { return s.why(c.Context(), ids[0]) },
	}
}

func (s *session) why(ctx context.Context, id string) error {
	a, err := s.api()
	if err != nil {
		return err
	}
	r, err := a.get(ctx, pathf("/jobs/%s/why", id))
	if err != nil {
		return err
	}
	var view whyView
	if err := a.decode(r, &view); err != nil {
		return err
	}
	return s.emit(r.body, func(w io.Writer) { s.printWhy(w, view) })
}

func (s *session) printWhy(w io.Writer, v whyView) {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format(time.RFC3339)
	}
	fmt.Fprintf(w, "%s is %s\n\n", v.JobID, v.State)
	rows := make([][]string, len(v.Reasons))
	for i, r := range v.Reasons {
		rows[i] = []string{r.Code, at(r.Until), r.Message}
	}
	s.table(w, []string{"REASON", "UNTIL", "WHAT"}, rows)
	if !v.ETA.IsZero() {
		fmt.Fprintf(w, "\nIt can run from %s.\n", at(v.ETA))
	}
}
