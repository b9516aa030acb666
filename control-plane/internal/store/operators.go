package store

import (
	"context"
	"strings"
	"time"
)

// Roles of operators: to look, and to change things too.
const (
	OperatorViewer = "viewer"
	OperatorAdmin  = "admin"
)

// Operator is a person who operates the service.
type Operator struct {
	UserID string
	// Email is the person's, of records that were read.
	Email   string
	Role    string
	AddedAt time.Time
	AddedBy string
}

// OperatorEntry is what an operator, or somebody on the host, did that is about no tenant.
type OperatorEntry struct {
	ID                            string
	At                            time.Time
	Actor, Action, Target, Detail string
}

// TenantFigures are what operators compare tenants by, as of a time.
type TenantFigures struct {
	TenantID string
	At       time.Time
	// Month is when the month of Revenue began.
	Month                     time.Time
	Currency                  string
	Revenue, RevenueLastMonth int64
	JobsDay, JobsHour         int64
	OpenJobs, StoredBytes     int64
}

var (
	operatorLog = table[OperatorEntry]{
		name: "operator_log", columns: "id, at, actor, action, target, detail",
		fields: func(v *OperatorEntry) []any {
			return []any{&v.ID, asTime{&v.At}, &v.Actor, &v.Action, &v.Target, &v.Detail}
		},
	}
	tenantFigures = table[TenantFigures]{
		name: "tenant_figures", columns: "tenant_id, at, month, currency, revenue, revenue_last_month, jobs_day, jobs_hour, open_jobs, stored_bytes",
		fields: func(v *TenantFigures) []any {
			return []any{&v.TenantID, asTime{&v.At}, asTime{&v.Month}, &v.Currency, &v.Revenue, &v.RevenueLastMonth, &v.JobsDay, &v.JobsHour, &v.OpenJobs, &v.StoredBytes}
		},
	}
)

func (v *Operator) fields() []any {
	return []any{&v.UserID, &v.Email, &v.Role, asTime{&v.AddedAt}, &v.AddedBy}
}

// operators selects them with their addresses; a condition follows.
const operators = "SELECT o.user_id, u.email, o.role, o.added_at, o.added_by FROM operators o JOIN users u ON u.id = o.user_id "

// PutOperator names an operator, or gives one another role.
func (t *Tx) PutOperator(ctx context.Context, v Operator) error {
	_, err := t.across().exec(ctx, "put operator", `INSERT INTO operators (user_id, role, added_at, added_by) VALUES (?, ?, ?, ?)
		ON CONFLICT (user_id) DO UPDATE SET role = excluded.role, added_at = excluded.added_at, added_by = excluded.added_by`, v.UserID, v.Role, v.AddedAt, v.AddedBy)
	return err
}

// GetOperator finds one by the user's id.
func (t *Tx) GetOperator(ctx context.Context, userID string) (Operator, error) {
	return first(ctx, t.across(), "read operator", (*Operator).fields, operators+"WHERE o.user_id = ?", userID)
}

// ListOperators lists them by address.
func (t *Tx) ListOperators(ctx context.Context) ([]Operator, error) {
	return query(ctx, t.across(), "list operators", (*Operator).fields, operators+"ORDER BY u.email, o.user_id LIMIT ?", pageMax)
}

// DeleteOperator makes somebody no operator.
func (t *Tx) DeleteOperator(ctx context.Context, userID string) error {
	return t.across().change(ctx, "delete operator", "DELETE FROM operators WHERE user_id = ?", userID)
}

// InsertOperatorEntry adds to the operators' log.
func (t *Tx) InsertOperatorEntry(ctx context.Context, v OperatorEntry) error {
	return operatorLog.insert(ctx, t.across(), v)
}

// ListOperatorEntries lists the log, the newest first.
func (t *Tx) ListOperatorEntries(ctx context.Context, limit int) ([]OperatorEntry, error) {
	return operatorLog.list(ctx, t.across(), limit, "1 = 1 ORDER BY at DESC, id DESC")
}

// PutTenantFigures overwrites a tenant's.
func (t *Tx) PutTenantFigures(ctx context.Context, v TenantFigures) error {
	if _, err := t.of(v.TenantID).exec(ctx, "replace figures", "DELETE FROM tenant_figures WHERE tenant_id = ?", v.TenantID); err != nil {
		return err
	}
	return tenantFigures.insert(ctx, t.of(v.TenantID), v)
}

// GetTenantFigures reads a tenant's.
func (t *Tx) GetTenantFigures(ctx context.Context, tenantID string) (TenantFigures, error) {
	return tenantFigures.get(ctx, t.of(tenantID), "tenant_id = ?", tenantID)
}

// FiguresAge says which figures are too old.
type FiguresAge struct {
	// Month is when the current month began: others are of another one.
	Month time.Time
	// Changed: figures of before are too old if the tenant's usage changed since. Any: figures
	// of before are too old.
	Changed, Any time.Time
}

// StaleFigures lists live tenants after one whose figures are missing or too old, by id. What
// is older than a change of the tenant's own record, such as its plan's, always is.
func (t *Tx) StaleFigures(ctx context.Context, age FiguresAge, after string, limit int) ([]string, error) {
	return query(ctx, t.across(), "list stale figures", single[string], `SELECT t.tenant_id FROM tenants t
		LEFT JOIN tenant_figures f ON f.tenant_id = t.tenant_id LEFT JOIN usage_changes c ON c.tenant_id = t.tenant_id
		WHERE t.deleted_at = 0 AND t.tenant_id > ? AND (f.tenant_id IS NULL OR f.month <> ? OR f.at < ? OR t.updated_at > f.at OR f.at < ? AND c.changed_at > f.at)
		ORDER BY t.tenant_id LIMIT ?`, after, age.Month, age.Any, age.Changed, limit)
}

// TenantUse is a tenant with what an operator lists beside it.
type TenantUse struct {
	Tenant
	PlanVersion         int64
	State               string
	Members, Namespaces int
	// Figures have a zero At if none were computed.
	Figures TenantFigures
}

// TenantOrder is what tenants are listed by.
type TenantOrder string

// Orders: the oldest first, by name, and the largest figure first.
const (
	ByCreated     TenantOrder = "created"
	ByName        TenantOrder = "name"
	ByRevenue     TenantOrder = "revenue"
	ByLastMonth   TenantOrder = "last_month"
	ByJobsDay     TenantOrder = "jobs_day"
	ByJobsHour    TenantOrder = "jobs_hour"
	ByOpenJobs    TenantOrder = "open_jobs"
	ByStoredBytes TenantOrder = "stored_bytes"
)

// TenantOrders are all of them.
func TenantOrders() []TenantOrder {
	return []TenantOrder{ByCreated, ByName, ByRevenue, ByLastMonth, ByJobsDay, ByJobsHour, ByOpenJobs, ByStoredBytes}
}

// figure is the order's column. ByCreated and ByName have none.
func (o TenantOrder) figure() string {
	return map[TenantOrder]string{
		ByRevenue: "f.revenue", ByLastMonth: "f.revenue_last_month", ByJobsDay: "f.jobs_day", ByJobsHour: "f.jobs_hour", ByOpenJobs: "f.open_jobs", ByStoredBytes: "f.stored_bytes",
	}[o]
}

// noFigure is that of a tenant without figures: it is the last.
const noFigure = -1

// Figure of the order, as a page goes on after it.
func (o TenantOrder) Figure(v TenantUse) int64 {
	f := v.Figures
	if f.At.IsZero() {
		return noFigure
	}
	return map[TenantOrder]int64{
		ByRevenue: f.Revenue, ByLastMonth: f.RevenueLastMonth, ByJobsDay: f.JobsDay, ByJobsHour: f.JobsHour, ByOpenJobs: f.OpenJobs, ByStoredBytes: f.StoredBytes,
	}[o]
}

// TenantQuery is which tenants are listed, and how.
type TenantQuery struct {
	// Search is a part of the name, or an id; Plan and State are exact. Empty: all.
	Search, Plan, State string
	Order               TenantOrder
	// After is the tenant that the list goes on after, with its Figure or name.
	After       string
	AfterFigure int64
	Limit       int
}

// ListTenantUse lists live tenants.
func (t *Tx) ListTenantUse(ctx context.Context, q TenantQuery) ([]TenantUse, error) {
	q.Limit = Page{Limit: q.Limit}.limit()
	figure := q.Order.figure()
	if figure == "" {
		return t.tenantUse(ctx, q, q.byRecord("t.deleted_at = 0"))
	}
	// An index has the order of those with figures, but not of a join that may have none.
	var list []TenantUse
	if q.After == "" || q.AfterFigure != noFigure {
		with, err := t.tenantUse(ctx, q, q.byFigure(figure))
		if err != nil || len(with) == q.Limit {
			return with, err
		}
		list, q.After, q.Limit = with, "", q.Limit-len(with)
	}
	rest, err := t.tenantUse(ctx, q, q.byRecord("t.deleted_at = 0 AND f.tenant_id IS NULL"))
	return append(list, rest...), err
}

// pageOf is where a page begins, and its order.
type pageOf struct {
	join, figures string
	where         string
	args          []any
	order         string
}

// byRecord is by what a tenant's own record has.
func (q TenantQuery) byRecord(where string) pageOf {
	column := "t.tenant_id"
	if q.Order == ByName {
		column = "t.name"
	}
	return pageOf{join: "LEFT JOIN", where: where + " AND " + column + " > ?", args: []any{q.After}, order: column}
}

// byFigure is by a column of figures. The largest figure is said on its own: no database finds
// its place in an index by an OR. Figures are sorted on their own for PostgreSQL: it takes a
// policy of row security for far stricter than it is, and would join all tenants, then sort.
func (q TenantQuery) byFigure(column string) pageOf {
	from, order := "1 = 1", column+" DESC, f.tenant_id"
	var args []any
	if q.After != "" {
		from, args = column+" <= ? AND ("+column+" < ? OR f.tenant_id > ?)", []any{q.AfterFigure, q.AfterFigure, q.After}
	}
	return pageOf{join: "JOIN", figures: "WHERE " + from + " ORDER BY " + order, where: "t.deleted_at = 0", args: args, order: order}
}

func (t *Tx) tenantUse(ctx context.Context, q TenantQuery, p pageOf) ([]TenantUse, error) {
	where, args := p.where, p.args
	add := func(condition string, values ...any) {
		where, args = where+" AND "+condition, append(args, values...)
	}
	if q.Search != "" {
		add(`(t.name LIKE ? ESCAPE '\' OR t.tenant_id = ?)`, "%"+likeText.Replace(strings.ToLower(q.Search))+"%", q.Search)
	}
	if q.Plan != "" {
		add("t.plan = ?", q.Plan)
	}
	if q.State != "" {
		add("s.state = ?", q.State)
	}
	return query(ctx, t.across(), "list tenants with their use", func(v *TenantUse) []any {
		return append(append(tenants.fields(&v.Tenant), &v.PlanVersion, &v.State, &v.Members, &v.Namespaces), tenantFigures.fields(&v.Figures)...)
	}, "SELECT "+tenants.under("t")+`, s.plan_version, s.state, (SELECT COUNT(*) FROM memberships m WHERE m.tenant_id = t.tenant_id),
		(SELECT COUNT(*) FROM namespaces n WHERE n.tenant_id = t.tenant_id AND n.deleted_at = 0), `+figuresOrNone+`
		FROM tenants t JOIN subscriptions s ON s.tenant_id = t.tenant_id
		`+p.join+` (SELECT f.* FROM tenant_figures f `+p.figures+`) f ON f.tenant_id = t.tenant_id
		WHERE `+where+" ORDER BY "+p.order+" LIMIT ?", append(args, q.Limit)...)
}

// likeText makes a text match nothing but itself.
var likeText = strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`)

// figuresOrNone are the columns of figures in a join that may have none.
const figuresOrNone = `t.tenant_id, COALESCE(f.at, 0), COALESCE(f.month, 0), COALESCE(f.currency, ''), COALESCE(f.revenue, 0), COALESCE(f.revenue_last_month, 0),
	COALESCE(f.jobs_day, 0), COALESCE(f.jobs_hour, 0), COALESCE(f.open_jobs, 0), COALESCE(f.stored_bytes, 0)`

// TenantNames maps tenants, deleted ones too, to their names.
func (t *Tx) TenantNames(ctx context.Context, ids []string) (map[string]string, error) {
	type named struct{ id, name string }
	var args []any
	for _, id := range ids {
		args = append(args, id)
	}
	if len(args) == 0 {
		return nil, nil
	}
	found, err := query(ctx, t.across(), "find names of tenants", func(v *named) []any { return []any{&v.id, &v.name} },
		"SELECT tenant_id, name FROM tenants WHERE tenant_id IN ("+places(len(args))+")", args...)
	out := make(map[string]string, len(found))
	for _, f := range found {
		out[f.id] = f.name
	}
	return out, err
}

// CountTenantsByPlan counts live tenants by the plan and version that they have.
func (t *Tx) CountTenantsByPlan(ctx context.Context) (map[PlanRef]int, error) {
	type row struct {
		PlanRef
		n int
	}
	found, err := query(ctx, t.across(), "count tenants by plan", func(v *row) []any { return []any{&v.Plan, &v.Version, &v.n} },
		`SELECT t.plan, s.plan_version, COUNT(*) FROM tenants t JOIN subscriptions s ON s.tenant_id = t.tenant_id WHERE t.deleted_at = 0
		GROUP BY t.plan, s.plan_version LIMIT ?`, usageMax)
	out := make(map[PlanRef]int, len(found))
	for _, f := range found {
		out[f.PlanRef] = f.n
	}
	return out, err
}

// PlanRef names a version of a plan.
type PlanRef struct {
	Plan    string
	Version int64
}

// ListPlanVersions lists all versions of all plans, or of one: the plan that is smallest by its
// newest version first, and of a plan the newest version.
func (t *Tx) ListPlanVersions(ctx context.Context, plan string) ([]PlanVersion, error) {
	list, err := planVersions.list(ctx, t.common(), pageMax, `(plan = ? OR ? = '') ORDER BY
		(SELECT n.rank FROM plan_versions n JOIN plans p ON p.name = n.plan AND p.version = n.version WHERE n.plan = plan_versions.plan), plan, version DESC`, plan, plan)
	for i := range list {
		if err == nil {
			err = t.completePlan(ctx, &list[i])
		}
	}
	return list, err
}

// ListTenantReadings lists a tenant's readings, the newest hours first.
func (t *Tx) ListTenantReadings(ctx context.Context, tenantID string, limit int) ([]UsageReading, error) {
	return usageReadings.list(ctx, t.of(tenantID), limit, "tenant_id = ? ORDER BY hour DESC, namespace_id, cell, source, epoch", tenantID)
}

// ListUsageCells lists the cells that told something, or had hours closed.
func (t *Tx) ListUsageCells(ctx context.Context) ([]string, error) {
	return query(ctx, t.across(), "list cells", single[string], "SELECT cell FROM usage_sources UNION SELECT cell FROM usage_closings ORDER BY cell LIMIT ?", pageMax)
}

// PushCount is how many pushes have a state.
type PushCount struct {
	State string
	// Sent: they were, at least once.
	Sent bool
	N    int64
}

// CountBillingPushes counts those that aren't done.
func (t *Tx) CountBillingPushes(ctx context.Context) ([]PushCount, error) {
	return query(ctx, t.across(), "count pushes", func(v *PushCount) []any { return []any{&v.State, asBool{&v.Sent}, &v.N} },
		`SELECT state, CASE WHEN first_sent_at > 0 THEN 1 ELSE 0 END AS sent, COUNT(*) FROM billing_pushes WHERE state <> 'done' GROUP BY state, sent LIMIT ?`, pageMax)
}

// ListUndoneBillingPushes lists those that aren't done, the oldest hour first.
func (t *Tx) ListUndoneBillingPushes(ctx context.Context, limit int) ([]BillingPush, error) {
	return billingPushes.list(ctx, t.across(), limit, "state <> 'done' ORDER BY hour, tenant_id, meter, revision")
}
