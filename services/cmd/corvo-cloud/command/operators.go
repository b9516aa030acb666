package command

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/control-plane/server"
)

// operatorsCommand holds what says who operates the service in the console: no page and no
// call of the API does.
func (s *session) operatorsCommand() *cobra.Command {
	return group("operators", "Say who operates the service in the console",
		s.addOperatorCommand(), s.listOperatorsCommand(), s.removeOperatorCommand(), s.operatorLogCommand())
}

func (s *session) addOperatorCommand() *cobra.Command {
	var role string
	c := s.onDatabase(&cobra.Command{
		Use: "add EMAIL", Short: "Make somebody an operator, or give an operator another role", Args: cobra.ExactArgs(1),
		Long: `Lets a person who signs in to the console by email see its operator pages: all tenants with
what they pay and use, plans, and how the ledger compares with Stripe. With the role admin they
can also change plans and overrides; each change is in the tenant's audit log. It gives no
access to jobs and payloads, and no rights in any tenant.

Until the person has a second factor, every operator page is refused.`,
		Example: `  corvo-cloud control operators add olga@example.com --role viewer --database postgres://corvo@db/corvo
  corvo-cloud control operators add olga@example.com --role admin --database sqlite:.run/up/control.db`,
	}, func(ctx context.Context, m server.Maintenance, args []string) error {
		o, err := server.AddOperator(ctx, m, args[0], role)
		if err != nil {
			return tenantFailure("couldn't add the operator", "", err)
		}
		return s.print(o, func() {
			fmt.Fprintf(s.proc.Stdout, "%s is an operator with the role %s\n", o.Email, o.Role)
			if !o.SecondFactor {
				fmt.Fprintln(s.proc.Stdout, "They need a second factor first: in the console, under Your account")
			}
		})
	})
	c.Flags().StringVar(&role, "role", "", "`ROLE`: viewer, or admin to change things")
	_ = c.MarkFlagRequired("role") // It exists.
	return c
}

func (s *session) listOperatorsCommand() *cobra.Command {
	return s.onDatabase(&cobra.Command{
		Use: "list", Short: "List the operators", Args: cobra.NoArgs,
		Example: `  corvo-cloud control operators list --database sqlite:.run/up/control.db`,
	}, func(ctx context.Context, m server.Maintenance, _ []string) error {
		list, err := server.Operators(ctx, m)
		if err != nil {
			return serverFailure("couldn't list the operators", err)
		}
		return s.print(list, func() {
			t := tabwriter.NewWriter(s.proc.Stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "EMAIL\tROLE\tSECOND FACTOR\tADDED\tBY")
			for _, o := range list {
				has := "yes"
				if !o.SecondFactor {
					has = "not yet"
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", o.Email, o.Role, has, o.AddedAt.Format(time.RFC3339), o.AddedBy)
			}
			_ = t.Flush() // Into memory.
		})
	})
}

func (s *session) removeOperatorCommand() *cobra.Command {
	return s.onDatabase(&cobra.Command{
		Use: "remove EMAIL", Short: "Make somebody no operator, from their next call on", Args: cobra.ExactArgs(1),
		Example: `  corvo-cloud control operators remove olga@example.com --database postgres://corvo@db/corvo`,
	}, func(ctx context.Context, m server.Maintenance, args []string) error {
		if err := server.RemoveOperator(ctx, m, args[0]); err != nil {
			return tenantFailure("couldn't remove the operator", "", err)
		}
		return s.print(map[string]string{"removed": args[0]}, func() { fmt.Fprintf(s.proc.Stdout, "%s is no operator\n", args[0]) })
	})
}

func (s *session) operatorLogCommand() *cobra.Command {
	return s.onDatabase(&cobra.Command{
		Use: "log", Short: "Show what operators and these commands changed outside of tenants", Args: cobra.NoArgs,
		Long: `Shows the newest 200 entries, the newest first: operators who were added and removed, versions
of plans, and comparisons that were asked for. Changes of tenants are in their audit logs.`,
		Example: `  corvo-cloud control operators log --database postgres://corvo@db/corvo`,
	}, func(ctx context.Context, m server.Maintenance, _ []string) error {
		list, err := server.OperatorLog(ctx, m)
		if err != nil {
			return serverFailure("couldn't read the operators' log", err)
		}
		return s.print(list, func() {
			t := tabwriter.NewWriter(s.proc.Stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "AT\tWHO\tDID\tWHAT\tDETAIL")
			for _, e := range list {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", e.At.Format(time.RFC3339), e.Actor, e.Action, e.Target, e.Detail)
			}
			_ = t.Flush() // Into memory.
		})
	})
}
