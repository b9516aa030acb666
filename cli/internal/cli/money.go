package cli

import (
	"cmp"
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

func (s *session) moneyVerbs() []verb {
	return []verb{
		s.usageVerb(), lists(s, verb{noun: "budget list", short: "List budgets"}, budgetTable()), s.budgetSetVerb(), s.budgetDeleteVerb(),
		lists(s, verb{noun: "approval-policy list", short: "List approval policies"}, policyTable()), s.policySetVerb(),
		s.deletes(verb{noun: "approval-policy delete", args: "POLICY...", short: "Delete approval policies; held jobs stay held", example: "  {cmd} apol_01JD0Z5W6T8RXVQ4K2M3N7P9SB"},
			func(_ context.Context, id string) (string, error) { return pathf("/approval-policies/%s", id), nil }),
	}
}

// deletes makes v delete what its arguments name; at finds the address of one.
func (s *session) deletes(v verb, at func(ctx context.Context, name string) (string, error)) verb {
	v.run = func(c *cobra.Command, names []string) error {
		paths := map[string]string{}
		for _, name := range names {
			path, err := at(c.Context(), name)
			if err != nil {
				return err
			}
			paths[name] = path
		}
		_, err := s.forEachNamed(c.Context(), "id", names, func(name string) call { return del(paths[name]) })
		return err
	}
	return v
}

func (s *session) usageVerb() verb {
	var period, group string
	return verb{
		root: "usage", short: "Show model usage and cost; corvo usage show has what is billed", example: "  {cmd}\n  {cmd} --period 7d --group-by model\n  {cmd} show",
		flags: func(c *cobra.Command) {
			c.Flags().StringVar(&period, "period", "24h", "how far back, such as 24h or 7d")
			c.Flags().StringVar(&group, "group-by", "queue", "queue, model or provider")
			completeWords(c, "group-by", "queue", "model", "provider")
		},
		run: func(c *cobra.Command, _ []string) error {
			query := url.Values{"period": {period}, "group_by": {group}}
			return show(c.Context(), s, get("/api/v1/usage/summary?"+query.Encode()), func(w io.Writer, v *wire.UsageSummary, _ time.Time) {
				collection[wire.UsageGroup]{
					header: []string{strings.ToUpper(group), "REPORTS", "INPUT", "OUTPUT", "CACHE WRITE", "CACHE READ", "COST"},
					row: func(u *wire.UsageGroup) []any {
						return []any{u.Key, u.Count, u.InputTokens, u.OutputTokens, u.CacheCreationTokens, u.CacheReadTokens, u.CostUSD}
					},
				}.print(w, s, append(v.Groups, wire.UsageGroup{Key: "total", Usage: v.Totals}))
			})
		},
	}
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

func (s *session) budgetSetVerb() verb {
	var daily, perJob float64
	body := wire.BudgetRequest{OnExceed: wire.ExceedHold}
	return verb{
		noun: "budget set", args: "SCOPE TARGET", short: "Create or change a budget",
		long: `SCOPE is global (TARGET *), queue (TARGET is its name) or tag (TARGET is KEY:VALUE).
Daily budgets reset at 00:00 UTC. When a budget is spent, --on-exceed hold starts no more
jobs until the reset, reject also refuses new ones, and alert_only only sends an event.
This replaces any budget of the target; settings you don't give get their defaults.`,
		example: "  {cmd} queue summarize --daily 20\n  {cmd} tag customer:acme --per-job 0.5 --on-exceed reject",
		flags: func(c *cobra.Command) {
			c.Flags().Float64Var(&daily, "daily", 0, "`DOLLARS` per day")
			c.Flags().Float64Var(&perJob, "per-job", 0, "`DOLLARS` per job")
			wordFlag(c, &body.OnExceed, "on-exceed", "%s", wire.OnExceeds())
		},
		run: func(c *cobra.Command, args []string) error {
			body.Scope, body.Target = wire.BudgetScope(args[0]), args[1]
			if c.Flags().Changed("daily") {
				body.DailyUSD = dollars(daily)
			}
			if c.Flags().Changed("per-job") {
				body.PerJobUSD = dollars(perJob)
			}
			return show(c.Context(), s, post("/api/v1/budgets", body).again(), budgetTable().printOne(s))
		},
	}
}

func (s *session) budgetDeleteVerb() verb {
	return verb{
		noun: "budget delete", args: "SCOPE TARGET", short: "Delete a budget", example: "  {cmd} queue summarize",
		run: func(c *cobra.Command, args []string) error {
			path, err := s.budgetPath(c.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			_, err = s.forEachNamed(c.Context(), "id", args[1:], func(string) call { return del(path) })
			return err
		},
	}
}

// budgetPath is where a budget is: by its id if its target can not stand in an address.
func (s *session) budgetPath(ctx context.Context, scope, target string) (string, error) {
	path := pathf("/budgets/%s/%s", scope, target)
	if !strings.ContainsAny(target, `/\;%`) {
		return path, nil
	}
	all, _, err := answerOf[[]wire.Budget](ctx, s, get("/api/v1/budgets"))
	if err != nil {
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
			return []any{p.ID, p.Name, enabled, p.Mode, p.Queue, tag, cmp.Or(strings.Join(p.Approvers, ","), "every operator")}
		},
		empty: "no approval policies; create one with: corvo approval-policy set refunds --queue refunds",
	}
}

func (s *session) policySetVerb() verb {
	body := wire.ApprovalPolicyRequest{Mode: wire.PolicyAny}
	var tag string
	var disabled bool
	return verb{
		noun: "approval-policy set", args: "NAME", short: "Create an approval policy",
		long:    "Jobs that match are held when they are enqueued, until they are approved or rejected.",
		example: "  {cmd} refunds --queue refunds\n  {cmd} large --tag size:large --approver key_1cf5YrM7hEQ0 --expires 24h",
		flags: func(c *cobra.Command) {
			wordFlag(c, &body.Mode, "mode", "match any condition, or all", wire.PolicyModes())
			c.Flags().StringVar(&body.Queue, "queue", "", "jobs in this `QUEUE`")
			c.Flags().StringVar(&tag, "tag", "", "jobs with this tag, `KEY:VALUE`")
			c.Flags().StringSliceVar(&body.Approvers, "approver", nil, "`NAMES` of users or key ids that can decide; can be repeated (default every operator)")
			c.Flags().StringVar(&body.ExpiresAfter, "expires", "", "decide automatically after this `DURATION`")
			wordFlag(c, &body.OnExpire, "on-expire", "automatic decision: reject (default) or approve", wire.OnExpires())
			c.Flags().BoolVar(&disabled, "disabled", false, "create it disabled")
		},
		run: func(c *cobra.Command, args []string) error {
			body.Name, body.Enabled = args[0], new(!disabled)
			var ok bool
			if body.TagKey, body.TagValue, ok = strings.Cut(tag, ":"); !ok && tag != "" {
				return usagef("--tag %q must be KEY:VALUE", tag)
			}
			return show(c.Context(), s, post("/api/v1/approval-policies", body), policyTable().printOne(s))
		},
	}
}
