package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

func (s *session) whyVerb() verb {
	return shows(s, verb{
		root: "why", noun: "job why", args: "JOB", short: "Explain why a job isn't running",
		long: `Lists every reason that a job isn't running, most important first, and when it will
run if it only has to wait.`,
		example: `  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB
  {cmd} job_01JD0Z5W6T8RXVQ4K2M3N7P9SB -o json | jq -r '.reasons[].code'`,
	}, func(ids []string) call { return get(pathf("/jobs/%s/why", ids[0])) }, s.printWhy)
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
