package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// dollars is an amount as the API takes it.
func dollars(d float64) wire.Dollars { return wire.Dollars(strconv.FormatFloat(d, 'f', -1, 64)) }

func attempts(n, most int) string { return fmt.Sprintf("%d/%d", n, most) }

func (s *session) usageCommand(use string) *cobra.Command {
	var period, group string
	c := &cobra.Command{
		Use: use, Short: "Show model usage and cost",
		Example: "  {cmd}\n  {cmd} --period 7d --group-by model", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{"period": {period}}
			if group != "" {
				query.Set("group_by", group)
			}
			ask := call{method: "GET", path: "/api/v1/usage/summary?" + query.Encode(), repeatable: true}
			return show(c.Context(), s, ask, func(w io.Writer, v *wire.UsageSummary, _ time.Time) {
				collection[wire.UsageGroup]{
					header: []string{strings.ToUpper(first(group, "usage")), "REPORTS", "INPUT", "OUTPUT", "CACHE WRITE", "CACHE READ", "COST"},
					row: func(u *wire.UsageGroup) []any {
						return []any{u.Key, u.Count, u.InputTokens, u.OutputTokens, u.CacheCreationTokens, u.CacheReadTokens, u.CostUSD}
					},
				}.print(w, s, append(v.Groups, wire.UsageGroup{Key: "total", Usage: v.Totals}))
			})
		},
	}
	c.Flags().StringVar(&period, "period", "24h", "how far back, such as 24h or 7d")
	c.Flags().StringVar(&group, "group-by", "", "queue, model or provider")
	completeWords(c, "group-by", "queue", "model", "provider")
	return c
}

// budgetTable is budgets as lists show them.
func budgetTable() collection[wire.Budget] {
	return collection[wire.Budget]{
		path: "/budgets", header: []string{"SCOPE", "TARGET", "DAILY", "SPENT TODAY", "PER JOB", "WHEN SPENT"},
		row: func(b *wire.Budget) []any {
			return []any{b.Scope, b.Target, b.DailyUSD, b.SpentUSD, b.PerJobUSD, b.OnExceed}
		},
		empty: "no budgets; create one with: corvo budget set queue summarize --daily 20",
	}
}

func (s *session) budgetNoun() *cobra.Command {
	return noun("budget", "Manage budgets: limits on model cost", s.budgetsCommand("list"), s.budgetSetCommand("set"), s.budgetDeleteCommand("delete"))
}

func (s *session) budgetsCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: "List budgets", Example: "  {cmd}", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return list(c.Context(), s, budgetTable(), 0) },
	}
}

func (s *session) budgetSetCommand(use string) *cobra.Command {
	var daily, perJob float64
	body := wire.BudgetRequest{OnExceed: wire.ExceedHold}
	c := &cobra.Command{
		Use:   use + " SCOPE TARGET",
		Short: "Create or change a budget",
		Long: `SCOPE is global (TARGET *), queue (TARGET is its name) or tag (TARGET is KEY:VALUE).
Daily budgets reset at 00:00 UTC. When a budget is spent, --on-exceed hold starts no more
jobs until the reset, reject also refuses new ones, and alert_only only sends an event.
This replaces any budget of the target; settings you don't give get their defaults.`,
		Example: "  {cmd} queue summarize --daily 20\n  {cmd} tag customer:acme --per-job 0.5 --on-exceed reject",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			body.Scope, body.Target = wire.BudgetScope(args[0]), args[1]
			if c.Flags().Changed("daily") {
				body.DailyUSD = dollars(daily)
			}
			if c.Flags().Changed("per-job") {
				body.PerJobUSD = dollars(perJob)
			}
			return show(c.Context(), s, call{method: "POST", path: "/api/v1/budgets", body: body, repeatable: true}, func(w io.Writer, b *wire.Budget, _ time.Time) {
				budgetTable().print(w, s, []wire.Budget{*b})
			})
		},
	}
	c.Flags().Float64Var(&daily, "daily", 0, "`DOLLARS` per day")
	c.Flags().Float64Var(&perJob, "per-job", 0, "`DOLLARS` per job")
	wordFlag(c, &body.OnExceed, "on-exceed", "%s", wire.OnExceeds())
	return c
}

func (s *session) budgetDeleteCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use + " SCOPE TARGET", Short: "Delete a budget", Example: "  {cmd} queue summarize", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := s.budgetPath(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return s.eachThing(c.Context(), args[1:], func(string) call { return call{method: "DELETE", path: path} })
		},
	}
}

// budgetPath is where a budget is: by its id if its target can not stand in an address.
func (s *session) budgetPath(ctx context.Context, scope, target string) (string, error) {
	path := pathf("/budgets/%s/%s", scope, target)
	if !strings.ContainsAny(target, `/\;%`) {
		return path, nil
	}
	a, err := s.api()
	if err != nil {
		return "", err
	}
	r, err := a.get(ctx, "/api/v1/budgets")
	if err != nil {
		return "", err
	}
	var all []wire.Budget
	if err := a.decode(r, &all); err != nil {
		return "", err
	}
	for i := range all {
		if string(all[i].Scope) == scope && all[i].Target == target {
			path = pathf("/budgets/%s", all[i].ID)
		}
	}
	return path, nil
}

// policyTable is approval policies as lists show them.
func policyTable() collection[wire.ApprovalPolicy] {
	return collection[wire.ApprovalPolicy]{
		path: "/approval-policies", header: []string{"POLICY", "NAME", "ENABLED", "MODE", "QUEUE", "TAG", "APPROVERS"},
		row: func(p *wire.ApprovalPolicy) []any {
			tag, enabled := "", "no"
			if p.TagKey != "" {
				tag = p.TagKey + ":" + p.TagValue
			}
			if p.Enabled {
				enabled = "yes"
			}
			return []any{p.ID, p.Name, enabled, p.Mode, p.Queue, tag, first(strings.Join(p.Approvers, ","), "every operator")}
		},
		empty: "no approval policies; create one with: corvo approval-policy set refunds --queue refunds",
	}
}

func (s *session) policyNoun() *cobra.Command {
	return noun("approval-policy", "Manage approval policies: which jobs need approval", s.policiesCommand("list"), s.policySetCommand("set"), s.policyDeleteCommand("delete"))
}

func (s *session) policiesCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: "List approval policies", Example: "  {cmd}", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return list(c.Context(), s, policyTable(), 0) },
	}
}

func (s *session) policySetCommand(use string) *cobra.Command {
	body := wire.ApprovalPolicyRequest{Mode: wire.PolicyAny}
	var tag string
	var disabled bool
	c := &cobra.Command{
		Use:     use + " NAME",
		Short:   "Create an approval policy",
		Long:    "Jobs that match are held when they are enqueued, until they are approved or rejected.",
		Example: "  {cmd} refunds --queue refunds\n  {cmd} large --tag size:large --approver key_1cf5YrM7hEQ0 --expires 24h",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			body.Name, body.Enabled = args[0], new(!disabled)
			var ok bool
			if body.TagKey, body.TagValue, ok = strings.Cut(tag, ":"); !ok && tag != "" {
				return usagef("--tag %q must be KEY:VALUE", tag)
			}
			return show(c.Context(), s, call{method: "POST", path: "/api/v1/approval-policies", body: body}, func(w io.Writer, p *wire.ApprovalPolicy, _ time.Time) {
				policyTable().print(w, s, []wire.ApprovalPolicy{*p})
			})
		},
	}
	wordFlag(c, &body.Mode, "mode", "match any condition, or all", wire.PolicyModes())
	c.Flags().StringVar(&body.Queue, "queue", "", "jobs in this `QUEUE`")
	c.Flags().StringVar(&tag, "tag", "", "jobs with this tag, `KEY:VALUE`")
	c.Flags().StringSliceVar(&body.Approvers, "approver", nil, "`NAMES` of users or key ids that can decide; can be repeated (default every operator)")
	c.Flags().StringVar(&body.ExpiresAfter, "expires", "", "decide automatically after this `DURATION`")
	wordFlag(c, &body.OnExpire, "on-expire", "automatic decision: reject (default) or approve", wire.OnExpires())
	c.Flags().BoolVar(&disabled, "disabled", false, "create it disabled")
	return c
}

func (s *session) policyDeleteCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use + " POLICY...", Short: "Delete approval policies; held jobs stay held", Example: "  {cmd} apol_01JD0Z5W6T8RXVQ4K2M3N7P9SB", Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, ids []string) error {
			return s.eachThing(c.Context(), ids, func(id string) call { return call{method: "DELETE", path: pathf("/approval-policies/%s", id)} })
		},
	}
}
