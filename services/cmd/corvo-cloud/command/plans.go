package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/corvo-cloud/corvo/control-plane/server"
)

// planFileMax bounds the file of a plan.
const planFileMax = 1 << 20

func (s *session) plansCommand() *cobra.Command {
	return group("plans", "List plans, show one, and make a new version of one", s.listPlansCommand(), s.showPlanCommand(), s.applyPlanCommand())
}

// onDatabase adds the flags of a command that needs nothing but the database.
func (s *session) onDatabase(c *cobra.Command, run func(context.Context, server.Maintenance, []string) error) *cobra.Command {
	var database string
	c.Flags().StringVar(&database, "database", "", databaseUsage)
	c.Flags().StringVarP(&s.output, "output", "o", outputText, "`FORMAT`: text or json")
	c.RunE = func(c *cobra.Command, args []string) error {
		if database = s.orEnv(database, envDatabase); database == "" {
			return errNoDatabase
		}
		return run(c.Context(), server.Maintenance{Database: database, Logger: s.logger(), By: whoRuns()}, args)
	}
	return c
}

// whoRuns is who runs this command, for the operators' log.
func whoRuns() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + " on " + host
}

func (s *session) listPlansCommand() *cobra.Command {
	return s.onDatabase(&cobra.Command{
		Use: "list", Short: "List the plans in their newest versions", Args: cobra.NoArgs,
		Example: `  corvo-cloud control plans list --database sqlite:.run/up/control.db`,
	}, func(ctx context.Context, m server.Maintenance, _ []string) error {
		list, err := server.Plans(ctx, m)
		if err != nil {
			return serverFailure("couldn't list the plans", err)
		}
		return s.print(list, func() {
			t := tabwriter.NewWriter(s.proc.Stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(t, "PLAN\tVERSION\tRANK\tA MONTH\tCHOSEN BY")
			for _, p := range list {
				by := "operator"
				if p.SelfServe {
					by = "tenants"
				}
				fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\n", p.Name, p.Version, p.Rank, money(p.BaseAmount, p.Currency), by)
			}
			_ = t.Flush() // Into memory.
		})
	})
}

func (s *session) showPlanCommand() *cobra.Command {
	return s.onDatabase(&cobra.Command{
		Use: "show PLAN", Short: "Show a plan as a file that apply takes", Args: cobra.ExactArgs(1),
		Long: `Shows the newest version of a plan: as YAML, or as JSON with --output json. Edit it and make it
the next version with "plans apply".`,
		Example: `  corvo-cloud control plans show team --database sqlite:.run/up/control.db >team.yaml`,
	}, func(ctx context.Context, m server.Maintenance, args []string) error {
		list, err := server.Plans(ctx, m)
		if err != nil {
			return serverFailure("couldn't read the plans", err)
		}
		for _, p := range list {
			if p.Name != args[0] {
				continue
			}
			if s.output == outputJSON {
				return json.NewEncoder(s.proc.Stdout).Encode(p.PlanSpec)
			}
			return writeYAML(s.proc.Stdout, p.PlanSpec)
		}
		return &Failure{Exit: ExitNotFound, Code: "NOT_FOUND", What: fmt.Sprintf("there is no plan %q", args[0]), Fix: "`corvo-cloud control plans list` lists them"}
	})
}

// writeYAML writes a plan with the names and the order that JSON has.
func writeYAML(w io.Writer, spec server.PlanSpec) error {
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil { // JSON is YAML.
		return err
	}
	block(&node)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	return errors.Join(e.Encode(&node), e.Close())
}

// block undoes the style of JSON.
func block(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		block(c)
	}
}

func (s *session) applyPlanCommand() *cobra.Command {
	var dryRun bool
	var reason string
	c := s.onDatabase(&cobra.Command{
		Use: "apply FILE", Short: "Make a file the newest version of its plan", Args: cobra.ExactArgs(1),
		Long: `Makes the plan in a YAML or JSON file the newest version of the plan of that name, or a new
plan. The same file again changes nothing. Tenants stay at the version that they have: a new one counts for those who choose the plan from then on, and for those whom
"control set-plan" moves.`,
		Example: `  corvo-cloud control plans apply team.yaml --dry-run --database sqlite:.run/up/control.db
  corvo-cloud control plans apply team.yaml --database sqlite:.run/up/control.db`,
	}, func(ctx context.Context, m server.Maintenance, args []string) error {
		spec, err := readPlan(args[0])
		if err != nil {
			return err
		}
		r, err := server.ApplyPlan(ctx, m, spec, dryRun, reason)
		if err != nil {
			return tenantFailure("couldn't apply the plan", "", err)
		}
		return s.print(r, func() { s.printApplied(r) })
	})
	c.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would be different")
	c.Flags().StringVar(&reason, "reason", "", "why: `TEXT` for the operators' log")
	return c
}

func (s *session) printApplied(r server.PlanApplied) {
	for _, d := range r.Differences {
		before, after := d.Before, d.After
		if before == "" {
			before = "-"
		}
		if after == "" {
			after = "-"
		}
		fmt.Fprintf(s.proc.Stdout, "%s: %s -> %s\n", d.Field, before, after)
	}
	switch {
	case len(r.Differences) == 0:
		fmt.Fprintf(s.proc.Stdout, "plan %s is as in the file, at version %d\n", r.Plan, r.Version)
	case r.DryRun:
		fmt.Fprintf(s.proc.Stdout, "plan %s would get version %d\n", r.Plan, r.Version+1)
	default:
		fmt.Fprintf(s.proc.Stdout, "plan %s has version %d\n", r.Plan, r.Version)
	}
}

// readPlan reads a plan strictly: a misspelt name must not be a limit that isn't there.
func readPlan(path string) (spec server.PlanSpec, _ error) {
	f, err := os.Open(path)
	if err != nil {
		return spec, usagef("%v", err)
	}
	defer func() { _ = f.Close() }() // It is only read.
	text, err := io.ReadAll(io.LimitReader(f, planFileMax))
	if err != nil {
		return spec, usagef("read %s: %v", path, err)
	}
	var any map[string]any
	if err := yaml.Unmarshal(text, &any); err != nil {
		return spec, usagef("%s: %v", path, err)
	}
	if text, err = json.Marshal(any); err != nil {
		return spec, usagef("%s: %v", path, err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		return spec, usagef("%s: %v", path, err)
	}
	return spec, nil
}

func (s *session) tenantsCommand() *cobra.Command {
	var q server.TenantQuery
	c := s.onDatabase(&cobra.Command{
		Use: "tenants", Short: "List the tenants with their plans and figures", Args: cobra.NoArgs,
		Long: `Lists the living tenants, the oldest first unless --sort names a figure, of which the largest
is first. Figures are stored ones: they are computed again some minutes after a tenant's usage
changed, by a running control plane. Money is before tax; JOBS are those of the last 24 hours.`,
		Example: `  corvo-cloud control tenants --database sqlite:.run/up/control.db
  corvo-cloud control tenants --sort revenue --plan team --database postgres://corvo@db/corvo`,
	}, func(ctx context.Context, m server.Maintenance, _ []string) error {
		list, err := server.TenantPlans(ctx, m, q)
		if err != nil {
			return tenantFailure("couldn't list the tenants", "", err)
		}
		return s.print(list, func() { s.printTenants(list) })
	})
	c.Flags().StringVar(&q.Sort, "sort", "", "`FIGURE`: one of "+strings.Join(server.TenantSorts(), ", "))
	c.Flags().StringVar(&q.Search, "search", "", "only tenants with `TEXT` in the name, or with this id")
	c.Flags().StringVar(&q.Plan, "plan", "", "only tenants with this `PLAN`")
	c.Flags().StringVar(&q.State, "state", "", "only tenants in this `STATE`: active, past_due, restricted or suspended")
	return c
}

func (s *session) printTenants(list []server.TenantPlan) {
	t := tabwriter.NewWriter(s.proc.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TENANT\tPLAN\tSTATE\tTHIS MONTH\tLAST MONTH\tJOBS\tOPEN\tMEMBERS\tNAMESPACES\tIN THE CELL\tCREATED\tID")
	for _, p := range list {
		carried := "yes"
		if !p.Carried {
			carried = "not yet"
		}
		this, last, jobs, open := "-", "-", "-", "-"
		if f := p.Figures; f != nil {
			this, last = money(f.Revenue, f.Currency), money(f.RevenueLastMonth, f.Currency)
			jobs, open = strconv.FormatInt(f.JobsDay, 10), strconv.FormatInt(f.OpenJobs, 10)
		}
		fmt.Fprintf(t, "%s\t%s (%d)\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", p.Tenant, p.Plan, p.PlanVersion, p.State, this, last, jobs, open,
			p.Members, p.Namespaces, carried, p.CreatedAt.Format(time.RFC3339), p.TenantID)
	}
	_ = t.Flush() // Into memory.
}

// money is an amount of the currency's smallest unit.
func money(amount int64, currency string) string {
	return fmt.Sprintf("%d.%02d %s", amount/100, amount%100, currency)
}

func (s *session) setPlanCommand() *cobra.Command {
	var database, reason string
	var wait time.Duration
	c := &cobra.Command{
		Use:   "set-plan TENANT PLAN",
		Short: "Give a tenant another plan",
		Long: `Changes the plan of a tenant to the newest version of a plan, at once, also of one that tenants
can't choose themselves. "corvo-cloud control plans list" lists them. Run it while the control
plane runs. It waits until the tenant's cell has the plan's limits. The tenant's audit log
has an entry, and a change that waited for the end of the month is over.

What the tenant has beyond a smaller plan stays, but it can't create more. Finished jobs,
events and usage that are older than the smaller plan keeps are deleted, usually within a
minute, and that can't be undone.

If no control plane is running, it ends with exit code 7, and the next one to start
finishes the change.`,
		Example: `  corvo-cloud control set-plan acme unlimited --database postgres://corvo@db/corvo
  corvo-cloud control set-plan acme free --database sqlite:.run/up/control.db`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return s.setPlan(c.Context(), s.orEnv(database, envDatabase), args[0], args[1], reason, wait)
		},
	}
	fs := c.Flags()
	fs.StringVar(&database, "database", "", databaseUsage)
	fs.StringVarP(&s.output, "output", "o", outputText, "`FORMAT`: text or json")
	fs.StringVar(&reason, "reason", "", "why: `TEXT` for the tenant's audit log")
	fs.DurationVar(&wait, "wait", 30*time.Second, "how long to wait for the cell")
	return c
}

func (s *session) setPlan(ctx context.Context, database, tenant, plan, reason string, wait time.Duration) error {
	if database == "" {
		return errNoDatabase
	}
	r, err := server.SetPlan(ctx, server.Maintenance{Database: database, Logger: s.logger()}, tenant, plan, reason, wait)
	if err != nil {
		return tenantFailure("couldn't set the plan", tenant, err)
	}
	if err := s.print(r, func() {
		switch {
		case r.Before == r.Plan:
			fmt.Fprintf(s.proc.Stdout, "tenant %s already has the plan %s\n", r.Tenant, r.Plan)
		default:
			fmt.Fprintf(s.proc.Stdout, "tenant %s has the plan %s; it was %s\n", r.Tenant, r.Plan, r.Before)
		}
	}); err != nil || r.Carried {
		return err
	}
	return &Failure{Exit: ExitTimeout, Code: "NOT_CARRIED", What: "the plan is set, but the cell may not have its limits yet",
		Why: fmt.Sprintf("no control plane confirmed it within %v", wait), Fix: "start the control plane, or check its /readyz, and run this again"}
}

func (s *session) overrideCommand() *cobra.Command {
	return group("override", "Give one tenant something else than its plan does", s.setOverrideCommand(), s.removeOverrideCommand())
}

func (s *session) setOverrideCommand() *cobra.Command {
	var o server.Override
	var ends string
	var wait time.Duration
	c := s.onDatabase(&cobra.Command{
		Use: "set TENANT NAME VALUE", Short: "Set an entitlement of a tenant", Args: cobra.ExactArgs(3),
		Long: `Gives a tenant more or less of something than its plan does, until it is removed or --ends.
NAME is an entitlement as "control plans show" has it, VALUE a number, or unlimited. Features are
0 or 1. The reason is in the tenant's audit log, and the tenant sees it with its plan.`,
		Example: `  corvo-cloud control override set acme namespaces_max 100 --reason "migration" --ends 2027-01-31T00:00:00Z --database postgres://corvo@db/corvo
  corvo-cloud control override set acme members_max unlimited --reason "contract 17" --database postgres://corvo@db/corvo`,
	}, func(ctx context.Context, m server.Maintenance, args []string) (err error) {
		o.Tenant, o.Name, o.Unlimited = args[0], args[1], args[2] == "unlimited"
		if o.Value, err = strconv.ParseInt(args[2], 10, 64); err != nil && !o.Unlimited {
			return usagef("%q isn't a whole number or unlimited", args[2])
		}
		if ends != "" {
			if o.EndsAt, err = time.Parse(time.RFC3339, ends); err != nil {
				return usagef("--ends %q isn't a time such as 2027-01-31T00:00:00Z", ends)
			}
		}
		r, err := server.SetOverride(ctx, m, o, wait)
		if err != nil {
			return tenantFailure("couldn't set the override", o.Tenant, err)
		}
		return s.overridden(r, "has "+args[2]+" of", wait)
	})
	c.Flags().StringVar(&o.Reason, "reason", "", "why: `TEXT` for the audit log")
	c.Flags().StringVar(&ends, "ends", "", "`TIME` from which the plan counts again, RFC 3339")
	c.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait for the cell")
	return c
}

func (s *session) removeOverrideCommand() *cobra.Command {
	var wait time.Duration
	var reason string
	c := s.onDatabase(&cobra.Command{
		Use: "remove TENANT NAME", Short: "Let the tenant's plan count again", Args: cobra.ExactArgs(2),
		Example: `  corvo-cloud control override remove acme namespaces_max --database postgres://corvo@db/corvo`,
	}, func(ctx context.Context, m server.Maintenance, args []string) error {
		r, err := server.RemoveOverride(ctx, m, args[0], args[1], reason, wait)
		if err != nil {
			return tenantFailure("couldn't remove the override", args[0], err)
		}
		return s.overridden(r, "has what its plan gives of", wait)
	})
	c.Flags().StringVar(&reason, "reason", "", "why: `TEXT` for the tenant's audit log")
	c.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait for the cell")
	return c
}

func (s *session) overridden(r server.Override, what string, wait time.Duration) error {
	if err := s.print(r, func() { fmt.Fprintf(s.proc.Stdout, "tenant %s %s %s\n", r.Tenant, what, r.Name) }); err != nil || r.Carried {
		return err
	}
	return &Failure{Exit: ExitTimeout, Code: "NOT_CARRIED", What: "it is recorded, but the cell may not have it yet",
		Why: fmt.Sprintf("no control plane confirmed it within %v", wait), Fix: "start the control plane, or check its /readyz; it carries the change by itself"}
}
