package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
)

// minuteUTC is how the verbs about plans and money write a time.
const minuteUTC = "2006-01-02 15:04 UTC"

func (s *session) planVerbs() []verb {
	var etag string
	var dryRun bool
	return []verb{
		s.ofTenant(verb{noun: "plan show", short: "Show the tenant's plan, and where each limit stands", example: "  {cmd}\n  {cmd} -o json"}, func(t *tenantCall, _ []string) error {
			res, err := tell(t, t.plans.GetSubscription, &cloudv1.GetSubscriptionRequest{Tenant: t.tenant})
			if err != nil {
				return err
			}
			return s.emitMessage(res, func(w io.Writer) { s.printSubscription(w, res.GetSubscription(), res.GetLimits()) })
		}),
		s.ofTenant(verb{noun: "plan list", short: "List the plans with their prices and limits", example: "  {cmd}\n  {cmd} -o json"}, func(t *tenantCall, _ []string) error {
			res, err := tell(t, t.plans.ListPlans, &cloudv1.ListPlansRequest{})
			if err != nil {
				return err
			}
			return printThings(s, res.GetPlans(), []string{"PLAN", "A MONTH", "CHOSEN BY", "LIMITS"}, func(p *cloudv1.Plan) []string {
				by, price := "operator", amount(p.GetBaseAmount(), p.GetCurrency())
				if p.GetSelfServe() {
					by = "you"
				} else if p.GetBaseAmount() == 0 {
					price = "as agreed"
				}
				return []string{p.GetName(), price, by, planLimits(p)}
			})
		}),
		s.ofTenant(verb{
			noun: "plan change", args: "PLAN", short: "Change to another plan",
			long: `A bigger plan counts at once, another one from the end of the month (UTC), if everything fits
then. With --dry-run nothing changes: it says when the plan would change, or what wouldn't fit.`,
			example: "  {cmd} team --dry-run\n  {cmd} team",
			flags: func(c *cobra.Command) {
				c.Flags().BoolVar(&dryRun, "dry-run", false, "only check")
				c.Flags().StringVar(&etag, "etag", "", "change it only if this `TAG` is the current one")
			},
		}, func(t *tenantCall, args []string) error {
			res, err := tell(t, t.plans.ChangePlan, &cloudv1.ChangePlanRequest{Tenant: t.tenant, Plan: args[0], Etag: etag, ValidateOnly: dryRun})
			if err != nil {
				return err
			}
			return s.emitMessage(res, func(w io.Writer) {
				verb := "changes"
				if dryRun {
					verb = "would change"
				}
				if at := res.GetEffectiveAt().AsTime(); at.After(time.Now()) {
					fmt.Fprintf(w, "The plan %s to %s at %s.\n", verb, args[0], at.UTC().Format(minuteUTC))
				} else if dryRun {
					fmt.Fprintf(w, "The plan would change to %s at once.\n", args[0])
				} else {
					fmt.Fprintf(w, "The plan is %s.\n", args[0])
				}
			})
		}),
		s.ofTenant(verb{noun: "plan cancel-change", short: "Take back a change that waits for the end of the month", example: "  {cmd}"}, func(t *tenantCall, _ []string) error {
			res, err := tell(t, t.plans.CancelPlanChange, &cloudv1.CancelPlanChangeRequest{Tenant: t.tenant})
			if err != nil {
				return err
			}
			return s.emitMessage(res, func(w io.Writer) {
				fmt.Fprintf(w, "The plan stays %s.\n", res.GetSubscription().GetPlan().GetName())
			})
		}),
	}
}

// planLimits are those that people compare plans by.
func planLimits(p *cloudv1.Plan) string {
	short := map[string]string{"enqueue_per_second": "jobs/s", "namespaces_max": "namespaces", "members_max": "members", "keys_max": "keys"}
	var out []string
	for _, e := range p.GetEntitlements() {
		if what := short[e.GetName()]; what != "" && !e.GetUnlimited() {
			out = append(out, grouped(e.GetValue())+" "+what)
		}
	}
	return strings.Join(out, ", ")
}

func (s *session) printSubscription(w io.Writer, sub *cloudv1.Subscription, limits []*cloudv1.LimitStatus) {
	f := facts{w, time.Now(), 16}
	p := sub.GetPlan()
	f.line("plan", fmt.Sprintf("%s (version %d)", p.GetName(), p.GetVersion()))
	f.line("a month", amount(p.GetBaseAmount(), p.GetCurrency()))
	f.line("state", sub.GetState())
	if sub.GetNextPlan() != "" {
		f.line("changes to", fmt.Sprintf("%s at %s", sub.GetNextPlan(), sub.GetNextPlanAt().AsTime().UTC().Format(minuteUTC)))
	}
	units := make(map[string]string)
	for _, e := range sub.GetEntitlements() {
		units[e.GetName()] = e.GetUnit()
	}
	for _, o := range sub.GetOverrides() {
		f.line("override", overrideText(o, units[o.GetName()]))
	}
	fmt.Fprintln(w)
	var rows [][]string
	counted := make(map[string]bool)
	for _, l := range limits {
		counted[l.GetName()] = true
		if l.GetMax() == 0 && l.GetUsed() == 0 && l.GetHolds() != "" { // Its numbers are with corvo spend-limit show.
			rows = append(rows, []string{l.GetName(), "-", "-", heldText(l), l.GetTitle()})
			continue
		}
		rows = append(rows, []string{l.GetName(), limitText(l.GetName(), l.GetUnit(), l.GetUsed(), false), limitText(l.GetName(), l.GetUnit(), l.GetMax(), l.GetUnlimited()), heldText(l), l.GetTitle()})
	}
	for _, e := range sub.GetEntitlements() {
		if !counted[e.GetName()] {
			rows = append(rows, []string{e.GetName(), "-", limitText(e.GetName(), e.GetUnit(), e.GetValue(), e.GetUnlimited()), "-", e.GetTitle()})
		}
	}
	s.table(w, []string{"LIMIT", "USED", "MAX", "HOLDS", "WHAT"}, rows)
}

// overrideText is what an override gives, until when, and why.
func overrideText(o *cloudv1.Override, unit string) string {
	text := o.GetName() + " " + limitText(o.GetName(), unit, o.GetValue(), o.GetUnlimited())
	if o.GetEndsAt() != nil {
		text += " until " + o.GetEndsAt().AsTime().UTC().Format(minuteUTC)
	}
	return text + ": " + o.GetReason()
}

// heldText is what a limit holds back, and until when.
func heldText(l *cloudv1.LimitStatus) string {
	if l.GetHolds() == "" || l.GetResetsAt() == nil {
		return cmp.Or(l.GetHolds(), "-")
	}
	return l.GetHolds() + " until " + l.GetResetsAt().AsTime().UTC().Format(minuteUTC)
}

func limitText(name, unit string, n int64, unlimited bool) string {
	switch {
	case unlimited:
		return "unlimited"
	case strings.HasPrefix(name, "feature."):
		return map[bool]string{true: "yes", false: "no"}[n > 0]
	case unit == "bytes":
		return size(n)
	case unit == "seconds":
		return duration(time.Duration(n) * time.Second)
	case unit == "jobs/s":
		return grouped(n) + "/s"
	}
	return grouped(n)
}
