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
)

func dollars(d float64) string {
	if d == 0 {
		return "-"
	}
	return "$" + strconv.FormatFloat(d, 'f', -1, 64)
}

func number(n int) string { return strconv.Itoa(n) }

func attempts(n, most int) string { return fmt.Sprintf("%d/%d", n, most) }

type usageSums struct {
	Key           string  `json:"key"`
	Input         int64   `json:"input_tokens"`
	Output        int64   `json:"output_tokens"`
	CacheCreation int64   `json:"cache_creation_tokens"`
	CacheRead     int64   `json:"cache_read_tokens"`
	CostUSD       float64 `json:"cost_usd"`
	Count         int64   `json:"count"`
}

func (u *usageSums) row() []string {
	return []string{first(u.Key, "-"), fmt.Sprint(u.Count), fmt.Sprint(u.Input), fmt.Sprint(u.Output), fmt.Sprint(u.CacheCreation), fmt.Sprint(u.CacheRead), dollars(u.CostUSD)}
}

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
			return show(c.Context(), s, ask, func(w io.Writer, v *struct {
				Totals usageSums   `json:"totals"`
				Groups []usageSums `json:"groups"`
			}, _ time.Time,
			) {
				rows := make([][]string, 0, len(v.Groups)+1)
				for i := range v.Groups {
					rows = append(rows, v.Groups[i].row())
				}
				v.Totals.Key = "total"
				rows = append(rows, v.Totals.row())
				s.table(w, []string{strings.ToUpper(first(group, "usage")), "REPORTS", "INPUT", "OUTPUT", "CACHE WRITE", "CACHE READ", "COST"}, rows)
			})
		},
	}
	c.Flags().StringVar(&period, "period", "24h", "how far back, such as 24h or 7d")
	c.Flags().StringVar(&group, "group-by", "", "queue, model or provider")
	completeWords(c, "group-by", "queue", "model", "provider")
	return c
}

type budgetView struct {
	ID        string  `json:"id"`
	Scope     string  `json:"scope"`
	Target    string  `json:"target"`
	DailyUSD  float64 `json:"daily_usd"`
	PerJobUSD float64 `json:"per_job_usd"`
	OnExceed  string  `json:"on_exceed"`
	SpentUSD  float64 `json:"spent_usd"`
}

var budgetHeader = []string{"SCOPE", "TARGET", "DAILY", "SPENT TODAY", "PER JOB", "WHEN SPENT"} //nolint:gochecknoglobals // A constant table.

func (b *budgetView) row(_ time.Time) []string {
	return []string{b.Scope, b.Target, dollars(b.DailyUSD), dollars(b.SpentUSD), dollars(b.PerJobUSD), b.OnExceed}
}

func (s *session) budgetNoun() *cobra.Command {
	return noun("budget", "Manage budgets: limits on model cost", s.budgetsCommand("list"), s.budgetSetCommand("set"), s.budgetDeleteCommand("delete"))
}

func (s *session) budgetsCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: "List budgets", Example: "  {cmd}", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c.Context(), s, collection[budgetView]{
				path: "/budgets", header: budgetHeader, row: (*budgetView).row,
				empty: "no budgets; create one with: corvo budget set queue summarize --daily 20",
			}, 0)
		},
	}
}

func (s *session) budgetSetCommand(use string) *cobra.Command {
	var daily, perJob float64
	var on string
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
			body := map[string]any{"scope": args[0], "target": args[1], "on_exceed": on}
			if c.Flags().Changed("daily") {
				body["daily_usd"] = daily
			}
			if c.Flags().Changed("per-job") {
				body["per_job_usd"] = perJob
			}
			return show(c.Context(), s, call{method: "POST", path: "/api/v1/budgets", body: body, repeatable: true}, func(w io.Writer, b *budgetView, now time.Time) {
				s.table(w, budgetHeader, [][]string{b.row(now)})
			})
		},
	}
	c.Flags().Float64Var(&daily, "daily", 0, "`DOLLARS` per day")
	c.Flags().Float64Var(&perJob, "per-job", 0, "`DOLLARS` per job")
	c.Flags().StringVar(&on, "on-exceed", "hold", "hold, reject or alert_only")
	completeWords(c, "on-exceed", "hold", "reject", "alert_only")
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
	var all []budgetView
	if err := a.decode(r, &all); err != nil {
		return "", err
	}
	for i := range all {
		if all[i].Scope == scope && all[i].Target == target {
			path = pathf("/budgets/%s", all[i].ID)
		}
	}
	return path, nil
}

type policyView struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Mode      string   `json:"mode"`
	Enabled   bool     `json:"enabled"`
	Queue     string   `json:"queue"`
	TagKey    string   `json:"tag_key"`
	TagValue  string   `json:"tag_value"`
	Approvers []string `json:"approvers"`
}

var policyHeader = []string{"POLICY", "NAME", "ENABLED", "MODE", "QUEUE", "TAG", "APPROVERS"} //nolint:gochecknoglobals // A constant table.

func (p *policyView) row(_ time.Time) []string {
	tag := "-"
	if p.TagKey != "" {
		tag = p.TagKey + ":" + p.TagValue
	}
	enabled := "yes"
	if !p.Enabled {
		enabled = "no"
	}
	return []string{p.ID, p.Name, enabled, p.Mode, first(p.Queue, "-"), tag, first(strings.Join(p.Approvers, ","), "every operator")}
}

func (s *session) policyNoun() *cobra.Command {
	return noun("approval-policy", "Manage approval policies: which jobs need approval", s.policiesCommand("list"), s.policySetCommand("set"), s.policyDeleteCommand("delete"))
}

func (s *session) policiesCommand(use string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: "List approval policies", Example: "  {cmd}", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return list(c.Context(), s, collection[policyView]{
				path: "/approval-policies", header: policyHeader, row: (*policyView).row,
				empty: "no approval policies; create one with: corvo approval-policy set refunds --queue refunds",
			}, 0)
		},
	}
}

func (s *session) policySetCommand(use string) *cobra.Command {
	var mode, queue, tag, expires, onExpire string
	var approvers []string
	var disabled bool
	c := &cobra.Command{
		Use:     use + " NAME",
		Short:   "Create an approval policy",
		Long:    "Jobs that match are held when they are enqueued, until they are approved or rejected.",
		Example: "  {cmd} refunds --queue refunds\n  {cmd} large --tag size:large --approver key_1cf5YrM7hEQ0 --expires 24h",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{"name": args[0], "mode": mode, "enabled": !disabled}
			if key, value, ok := strings.Cut(tag, ":"); ok {
				body["tag_key"], body["tag_value"] = key, value
			} else if tag != "" {
				return usagef("--tag %q must be KEY:VALUE", tag)
			}
			for member, text := range map[string]string{"queue": queue, "expires_after": expires, "on_expire": onExpire} {
				if text != "" {
					body[member] = text
				}
			}
			if len(approvers) > 0 {
				body["approvers"] = approvers
			}
			return show(c.Context(), s, call{method: "POST", path: "/api/v1/approval-policies", body: body}, func(w io.Writer, p *policyView, now time.Time) {
				s.table(w, policyHeader, [][]string{p.row(now)})
			})
		},
	}
	c.Flags().StringVar(&mode, "mode", "any", "match any condition, or all")
	c.Flags().StringVar(&queue, "queue", "", "jobs in this `QUEUE`")
	c.Flags().StringVar(&tag, "tag", "", "jobs with this tag, `KEY:VALUE`")
	c.Flags().StringSliceVar(&approvers, "approver", nil, "`NAMES` of users or key ids that can decide; can be repeated (default every operator)")
	c.Flags().StringVar(&expires, "expires", "", "decide automatically after this `DURATION`")
	c.Flags().StringVar(&onExpire, "on-expire", "", "automatic decision: reject (default) or approve")
	c.Flags().BoolVar(&disabled, "disabled", false, "create it disabled")
	completeWords(c, "mode", "any", "all")
	completeWords(c, "on-expire", "reject", "approve")
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
