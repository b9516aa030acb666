package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/control-plane/server"
)

func (s *session) reconciliationCommand() *cobra.Command {
	return s.onDatabase(&cobra.Command{
		Use: "reconciliation", Short: "Show what the ledger, what was sent and Stripe don't agree on, and what is late", Args: cobra.NoArgs,
		Long: `Shows the console's page of that name: differences that the last daily comparison found, what
isn't at Stripe for certain, up to where each cell's hours are closed and which shard or proxy
keeps them open, and alarms of the last 30 days. It reads the database alone, and changes nothing.

It ends with exit code 5 if somebody should look: something differs, isn't confirmed by Stripe
after 3 hours or wasn't compared for 2 days, hours of a cell aren't closing, or there is an alarm
of the last 24 hours. To compare now, use "control stripe reconcile --now".`,
		Example: `  corvo-cloud control reconciliation --database postgres://corvo@db/corvo
  corvo-cloud control reconciliation --database sqlite:.run/up/control.db -o json`,
	}, func(ctx context.Context, m server.Maintenance, _ []string) error {
		r, err := server.Reconcile(ctx, m)
		if err != nil {
			return serverFailure("couldn't read the reconciliation", err)
		}
		if err := s.print(r, func() { writeReconciliation(s.proc.Stdout, r) }); err != nil || len(r.Problems) == 0 {
			return err
		}
		return &Failure{Exit: ExitConflict, Code: "RECONCILIATION", What: strings.Join(r.Problems, "; "), Fix: "see docs/operators.md, \"Know when something is wrong\""}
	})
}

func writeReconciliation(to io.Writer, r server.Reconciliation) {
	fmt.Fprintf(to, "last comparison with Stripe: %s\n", stamp(r.ComparedAt))
	fmt.Fprintf(to, "not sent yet %d, sent without an answer %d, unconfirmed after 3 h %d, taken differently %d\n", r.Pushes.Waiting, r.Pushes.Unanswered, r.Pushes.Late, r.Pushes.Differing)
	t := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	section := func(n int, head string) bool {
		if n > 0 {
			fmt.Fprintf(t, "\n%s\n", head)
		}
		return n > 0
	}
	if section(len(r.Cells), "CELL\tCLOSED TO\tSTATE\tKEPT OPEN BY") {
		for _, c := range r.Cells {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", c.Cell, stamp(&c.ClosedTo), lateness(c.Late), keptOpenBy(c.LateSources))
		}
	}
	if section(len(r.Differences), "TENANT\tDAY\tMETER\tLEDGER\tSENT\tSTRIPE\tFOUND") {
		for _, d := range r.Differences {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", d.Tenant, d.Day, d.Meter, d.Ledger, d.Sent, d.Stripe, stamp(&d.FoundAt))
		}
	}
	if section(len(r.Undone), "TENANT\tHOUR\tMETER\tVALUE\tSTATE\tATTEMPTS\tLAST ERROR") {
		for _, p := range r.Undone {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%d\t%s\n", p.Tenant, stamp(&p.Hour), p.Meter, p.Value, p.State, p.Attempts, cmp.Or(oneLine(p.LastError), "-"))
		}
	}
	if section(len(r.Alarms), "TENANT\tNAMESPACE\tHOUR\tCELL\tSOURCE\tPROBLEM\tTIMES\tLAST") {
		for _, a := range r.Alarms {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", a.Tenant, a.NamespaceID, stamp(&a.Hour), a.Cell, a.Source, a.Problem, a.Times, stamp(&a.LastAt))
		}
	}
	_ = t.Flush() // Into memory.
}

func stamp(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func lateness(late bool) string {
	if late {
		return "late"
	}
	return "on time"
}

func keptOpenBy(sources []server.UsageSource) string {
	var names []string
	for _, v := range sources {
		names = append(names, v.Source)
	}
	return cmp.Or(strings.Join(names, ", "), "-")
}

// oneLine keeps what somebody else wrote in its row.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
