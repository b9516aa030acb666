package command

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/control-plane/server"
)

// Variables with secrets of Stripe: in no list of processes.
const (
	envStripeKey       = "CORVO_STRIPE_KEY"
	envStripeSecret    = "CORVO_STRIPE_WEBHOOK_SECRET"
	envStripeSecretOld = "CORVO_STRIPE_WEBHOOK_SECRET_OLD"
)

const stripeURLUsage = "call this `URL` in place of Stripe's, for tests (default https://api.stripe.com)"

// payments is what the environment says of Stripe.
func (s *session) payments(url string) server.Payments {
	p := server.Payments{Key: s.proc.Env(envStripeKey), URL: url}
	for _, name := range []string{envStripeSecret, envStripeSecretOld} {
		if secret := s.proc.Env(name); secret != "" {
			p.WebhookSecrets = append(p.WebhookSecrets, secret)
		}
	}
	return p
}

// stripeCommand holds what an operator does with Stripe.
func (s *session) stripeCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "stripe", Short: "Bring Stripe's catalog up to date, and compare what was sent with the ledger", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(s.stripeSyncCommand(), s.stripeReconcileCommand())
	return c
}

func (s *session) stripeSyncCommand() *cobra.Command {
	var f stripeFlags
	var dryRun bool
	c := &cobra.Command{
		Use:   "sync",
		Short: "Create Stripe's products, prices and meters from the plans",
		Long: `Creates what Stripe's catalog lacks: a meter for each meter that has a price, a product for each
plan that costs something, and the prices of its newest version. It prints what it did and can
be run again at any time.

A price of Stripe's that isn't the plan's is a conflict, which it leaves alone: prices can't be
changed. Make a new version of the plan.`,
		Example: `  CORVO_STRIPE_KEY=sk_test_… CORVO_STRIPE_WEBHOOK_SECRET=whsec_… \
    corvo-cloud control stripe sync --dry-run --database postgres://corvo@db/corvo --master-key-file control.key`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.stripeSync(c.Context(), f, dryRun) },
	}
	f.add(s, c)
	c.Flags().BoolVar(&dryRun, "dry-run", false, "create nothing, only print")
	return c
}

type stripeFlags struct {
	maintainFlags
	url string
}

func (f *stripeFlags) add(s *session, c *cobra.Command) {
	f.maintainFlags.add(s, c)
	c.Flags().StringVar(&f.url, "stripe-url", "", stripeURLUsage)
}

// with are the database and Stripe.
func (s *session) withStripe(f stripeFlags) (server.Maintenance, server.Payments, error) {
	p := s.payments(f.url)
	if p.Key == "" {
		return server.Maintenance{}, p, &Failure{Exit: ExitUsage, Code: "USAGE", What: envStripeKey + " is required", Fix: "set it, and " + envStripeSecret + ", as for corvo-cloud control"}
	}
	m, err := s.maintenance(f.maintainFlags)
	return m, p, err
}

func (s *session) stripeSync(ctx context.Context, f stripeFlags, dryRun bool) error {
	m, p, err := s.withStripe(f)
	if err != nil {
		return err
	}
	list, err := server.SyncStripe(ctx, m, p, dryRun)
	conflicts := 0
	printErr := s.print(list, func() {
		for _, d := range list {
			fmt.Fprintf(s.proc.Stdout, "%s %s %s", d.Action, d.Kind, d.Name)
			if d.Detail != "" {
				fmt.Fprintf(s.proc.Stdout, ": %s", d.Detail)
			}
			fmt.Fprintln(s.proc.Stdout)
		}
		if len(list) == 0 && err == nil {
			fmt.Fprintln(s.proc.Stdout, "Stripe's catalog is up to date")
		}
	})
	for _, d := range list {
		if d.Action == server.Conflict {
			conflicts++
		}
	}
	switch {
	case err != nil:
		return serverFailure("couldn't bring Stripe's catalog up to date", errors.Join(err, printErr))
	case printErr != nil || conflicts == 0:
		return printErr
	}
	return &Failure{Exit: ExitConflict, Code: "CONFLICT", What: "some of Stripe's prices aren't those of the plans", Fix: "make a new version of each of these plans, and run this again"}
}

func (s *session) stripeReconcileCommand() *cobra.Command {
	var f stripeFlags
	var now bool
	c := &cobra.Command{
		Use:   "reconcile",
		Short: "Show where the ledger, what was sent, and what Stripe counted don't agree",
		Long: `Prints the differences that the last daily comparison found, by tenant, meter and day. Numbers are
in the units of Stripe's meters. With --now it compares the last 40 days first.

It ends with exit code 5 if there are any.`,
		Example: `  corvo-cloud control stripe reconcile --now --database postgres://corvo@db/corvo --master-key-file control.key`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return s.stripeReconcile(c.Context(), f, now) },
	}
	f.add(s, c)
	c.Flags().BoolVar(&now, "now", false, "compare now; otherwise the last comparison's differences")
	return c
}

func (s *session) stripeReconcile(ctx context.Context, f stripeFlags, now bool) error {
	m, p, err := s.withStripe(f)
	if err != nil {
		return err
	}
	list, err := server.ReconcileStripe(ctx, m, p, now)
	if err != nil {
		return serverFailure("couldn't compare with Stripe", err)
	}
	err = s.print(list, func() {
		if len(list) == 0 {
			fmt.Fprintln(s.proc.Stdout, "no differences")
			return
		}
		t := tabwriter.NewWriter(s.proc.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "TENANT\tDAY\tMETER\tLEDGER\tSENT\tSTRIPE\tFOUND")
		for _, d := range list {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", d.TenantID, d.Day, d.Meter, d.Ledger, d.Sent, d.Stripe, d.FoundAt.Format(time.RFC3339))
		}
		_ = t.Flush() // Into memory.
	})
	if err != nil || len(list) == 0 {
		return err
	}
	return &Failure{Exit: ExitConflict, Code: "DIFFERENCES", What: fmt.Sprintf("%d differences", len(list)), Fix: "see docs/payments.md, \"When they don't agree\""}
}
