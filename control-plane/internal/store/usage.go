package store

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// Counts are the numbers of all meters.
type Counts struct {
	JobsEnqueued, Executions, PayloadBytes, StoredByteHours, EgressBytes, StreamsPeak int64
}

const countColumns = "jobs_enqueued, executions, payload_bytes, stored_byte_hours, egress_bytes, streams_peak"

func (c *Counts) fields() []any {
	return []any{&c.JobsEnqueued, &c.Executions, &c.PayloadBytes, &c.StoredByteHours, &c.EgressBytes, &c.StreamsPeak}
}

// UsageSource is up to where a source of readings was read in one of its epochs.
type UsageSource struct {
	Cell, Source, Epoch string
	Seq                 int64
	CompleteTo, HeardAt time.Time
	Ended               bool
}

var usageSources = table[UsageSource]{
	name: "usage_sources", columns: "cell, source, epoch, seq, complete_to, heard_at, ended",
	fields: func(v *UsageSource) []any {
		return []any{&v.Cell, &v.Source, &v.Epoch, &v.Seq, asTime{&v.CompleteTo}, asTime{&v.HeardAt}, asBool{&v.Ended}}
	},
}

// UsageSources lists those of a cell, of all epochs heard since a time and the others that
// have not ended.
func (t *Tx) UsageSources(ctx context.Context, cell string, since time.Time) ([]UsageSource, error) {
	return usageSources.list(ctx, t.common(), sourcesMax, "cell = ? AND (heard_at >= ? OR source LIKE 'shard/%') ORDER BY source, epoch", cell, since)
}

// GetUsageSource finds one epoch of a source.
func (t *Tx) GetUsageSource(ctx context.Context, cell, source, epoch string) (UsageSource, error) {
	return usageSources.get(ctx, t.common(), "cell = ? AND source = ? AND epoch = ?", cell, source, epoch)
}

// sourcesMax is shards and runs of proxies of one cell.
const sourcesMax = 10_000

// PutUsageSource writes a source's position. It never goes back.
func (t *Tx) PutUsageSource(ctx context.Context, v UsageSource) error {
	_, err := t.common().exec(ctx, "put usage source", "INSERT INTO usage_sources ("+usageSources.columns+") VALUES ("+places(7)+`)
		ON CONFLICT (cell, source, epoch) DO UPDATE SET
			seq = CASE WHEN excluded.seq > usage_sources.seq THEN excluded.seq ELSE usage_sources.seq END,
			heard_at = CASE WHEN excluded.complete_to > usage_sources.complete_to THEN excluded.heard_at ELSE usage_sources.heard_at END,
			complete_to = CASE WHEN excluded.complete_to > usage_sources.complete_to THEN excluded.complete_to ELSE usage_sources.complete_to END`,
		usageSources.fields(&v)...)
	return err
}

// EndUsageEpochs ends the epochs of a source but one, and counts those that had not ended.
func (t *Tx) EndUsageEpochs(ctx context.Context, cell, source, but string) (int, error) {
	return t.common().exec(ctx, "end usage epochs", "UPDATE usage_sources SET ended = 1 WHERE cell = ? AND source = ? AND epoch <> ? AND ended = 0", cell, source, but)
}

// DeleteUsageSources forgets runs of proxies that were not heard since a time.
func (t *Tx) DeleteUsageSources(ctx context.Context, heardBefore time.Time) (int, error) {
	return t.common().exec(ctx, "forget usage sources", "DELETE FROM usage_sources WHERE heard_at < ? AND source LIKE 'proxy/%'", heardBefore)
}

// UsageClosing is which hours of a cell are closed: those before Hour, and Hour itself of
// the tenants up to TenantsTo.
type UsageClosing struct {
	Cell      string
	Hour      int64
	TenantsTo string
	ClosedAt  time.Time
}

// Closed reports whether an hour of a tenant is closed.
func (c UsageClosing) Closed(tenantID string, hour int64) bool {
	return hour < c.Hour || hour == c.Hour && tenantID <= c.TenantsTo
}

var usageClosings = table[UsageClosing]{
	name: "usage_closings", columns: "cell, hour, tenants_to, closed_at",
	fields: func(v *UsageClosing) []any { return []any{&v.Cell, &v.Hour, &v.TenantsTo, asTime{&v.ClosedAt}} },
}

// GetUsageClosing reads a cell's.
func (t *Tx) GetUsageClosing(ctx context.Context, cell string) (UsageClosing, error) {
	return usageClosings.get(ctx, t.common(), "cell = ?", cell)
}

// PutUsageClosing overwrites a cell's.
func (t *Tx) PutUsageClosing(ctx context.Context, v UsageClosing) error {
	_, err := t.common().exec(ctx, "put usage closing", "INSERT INTO usage_closings ("+usageClosings.columns+`) VALUES (?, ?, ?, ?)
		ON CONFLICT (cell) DO UPDATE SET hour = excluded.hour, tenants_to = excluded.tenants_to, closed_at = excluded.closed_at`, usageClosings.fields(&v)...)
	return err
}

// UsageKey is an hour of a namespace.
type UsageKey struct {
	TenantID, NamespaceID string
	Hour                  int64
}

// UsageReading is the largest numbers that a source told of an hour in one epoch. What
// exceeds Base counts.
type UsageReading struct {
	UsageKey
	Cell, Source, Epoch string
	Seq                 int64
	Counts
	Base Counts
}

const baseColumns = "base_jobs_enqueued, base_executions, base_payload_bytes, base_stored_byte_hours, base_egress_bytes, base_streams_peak"

var usageReadings = table[UsageReading]{
	name:    "usage_readings",
	columns: "tenant_id, hour, namespace_id, cell, source, epoch, seq, " + countColumns + ", " + baseColumns,
	fields: func(v *UsageReading) []any {
		return append(append([]any{&v.TenantID, &v.Hour, &v.NamespaceID, &v.Cell, &v.Source, &v.Epoch, &v.Seq}, v.Counts.fields()...), v.Base.fields()...)
	},
}

// rows is n rows of parameters.
func rows(n, columns int) string {
	return strings.TrimSuffix(strings.Repeat("("+places(columns)+"), ", n), ", ")
}

// keyed is n hours of namespaces, to compare with (tenant_id, hour, namespace_id).
func keyed(n int) string {
	// PostgreSQL would take a number among only parameters for a text.
	return "(VALUES " + strings.TrimSuffix(strings.Repeat("(CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS TEXT)), ", n), ", ") + ")"
}

func keyArgs(keys []UsageKey) (args []any) {
	for _, k := range keys {
		args = append(args, k.TenantID, k.Hour, k.NamespaceID)
	}
	return args
}

// UsageReadings reads all sources' readings of some hours.
func (t *Tx) UsageReadings(ctx context.Context, keys []UsageKey) ([]UsageReading, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return query(ctx, t.across(), "read usage readings", usageReadings.fields, "SELECT "+usageReadings.columns+` FROM usage_readings
		WHERE (tenant_id, hour, namespace_id) IN `+keyed(len(keys)), keyArgs(keys)...)
}

// PutUsageReadings overwrites readings.
func (t *Tx) PutUsageReadings(ctx context.Context, list []UsageReading) error {
	var args []any
	for i := range list {
		args = append(args, usageReadings.fields(&list[i])...)
	}
	if len(list) == 0 {
		return nil
	}
	_, err := t.across().exec(ctx, "put usage readings", "INSERT INTO usage_readings ("+usageReadings.columns+") VALUES "+rows(len(list), len(args)/len(list))+`
		ON CONFLICT (tenant_id, hour, namespace_id, cell, source, epoch) DO UPDATE SET seq = excluded.seq, jobs_enqueued = excluded.jobs_enqueued,
			executions = excluded.executions, payload_bytes = excluded.payload_bytes, stored_byte_hours = excluded.stored_byte_hours,
			egress_bytes = excluded.egress_bytes, streams_peak = excluded.streams_peak`, args...)
	return err
}

// FirstUsageHour is the first hour of a cell of which there is a reading.
func (t *Tx) FirstUsageHour(ctx context.Context, cell string) (int64, error) {
	return first(ctx, t.across(), "find the first hour", single[int64], "SELECT hour FROM usage_readings WHERE cell = ? ORDER BY hour LIMIT 1", cell)
}

// UsageTenantsOf are the tenants after one that have readings in an hour.
func (t *Tx) UsageTenantsOf(ctx context.Context, cell string, hour int64, after string, limit int) ([]string, error) {
	return query(ctx, t.across(), "list tenants of an hour", single[string],
		"SELECT DISTINCT tenant_id FROM usage_readings WHERE cell = ? AND hour = ? AND tenant_id > ? ORDER BY tenant_id LIMIT ?", cell, hour, after, limit)
}

// CloseUsage writes the ledger of an hour for the tenants after one up to another, and adds
// it to their days. It counts the rows.
func (t *Tx) CloseUsage(ctx context.Context, cell string, hour int64, after, to string, now time.Time) (int, error) {
	n, err := t.across().exec(ctx, "close an hour", "INSERT INTO usage_hours (tenant_id, hour, namespace_id, revision, "+countColumns+", closed_at) "+
		counted("tenant_id, hour, namespace_id, 0, ", ", CAST(? AS BIGINT)", "usage_readings WHERE cell = ? AND hour = ? AND tenant_id > ? AND tenant_id <= ?"),
		now, cell, hour, after, to)
	if err != nil || n == 0 {
		return n, err
	}
	_, err = t.across().exec(ctx, "add an hour to its day", "INSERT INTO usage_days (tenant_id, day, namespace_id, "+countColumns+") "+
		counted("tenant_id, hour / 24, namespace_id, ", "", "usage_readings WHERE cell = ? AND hour = ? AND tenant_id > ? AND tenant_id <= ?")+addToDay,
		cell, hour, after, to)
	return n, err
}

// counted selects what counts of readings, by hour of a namespace: what exceeds their base.
// Of one source's epochs the sum counts, of streams_peak the largest.
func counted(before, after, from string) string {
	var inner, outer, some []string
	for _, c := range list(countColumns) {
		f := "SUM"
		if c == "streams_peak" {
			f = "MAX"
		}
		inner = append(inner, fmt.Sprintf("%[1]s(CASE WHEN %[2]s > base_%[2]s THEN %[2]s - base_%[2]s ELSE 0 END) AS %[2]s", f, c))
		outer = append(outer, "CAST(SUM("+c+") AS BIGINT)")
		some = append(some, "SUM("+c+") > 0")
	}
	return "SELECT " + before + strings.Join(outer, ", ") + after + " FROM (SELECT tenant_id, hour, namespace_id, source, " + strings.Join(inner, ", ") +
		" FROM " + from + " GROUP BY tenant_id, hour, namespace_id, source) AS by_source GROUP BY tenant_id, hour, namespace_id HAVING " + strings.Join(some, " OR ")
}

// addToDay ends a statement that inserts into usage_days.
const addToDay = ` ON CONFLICT (tenant_id, day, namespace_id) DO UPDATE SET jobs_enqueued = usage_days.jobs_enqueued + excluded.jobs_enqueued,
	executions = usage_days.executions + excluded.executions, payload_bytes = usage_days.payload_bytes + excluded.payload_bytes,
	stored_byte_hours = usage_days.stored_byte_hours + excluded.stored_byte_hours, egress_bytes = usage_days.egress_bytes + excluded.egress_bytes,
	streams_peak = CASE WHEN excluded.streams_peak > usage_days.streams_peak THEN excluded.streams_peak ELSE usage_days.streams_peak END`

// UsageHour is a row of the ledger. The highest revision of an hour counts.
type UsageHour struct {
	UsageKey
	Revision int64
	Counts
	ClosedAt time.Time
}

var usageHours = table[UsageHour]{
	name: "usage_hours", columns: "tenant_id, hour, namespace_id, revision, " + countColumns + ", closed_at",
	fields: func(v *UsageHour) []any {
		return append(append([]any{&v.TenantID, &v.Hour, &v.NamespaceID, &v.Revision}, v.Counts.fields()...), asTime{&v.ClosedAt})
	},
}

// UsageRevisions reads all rows of the ledger of some hours.
func (t *Tx) UsageRevisions(ctx context.Context, keys []UsageKey) ([]UsageHour, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return query(ctx, t.across(), "read revisions", usageHours.fields, "SELECT "+usageHours.columns+` FROM usage_hours
		WHERE (tenant_id, hour, namespace_id) IN `+keyed(len(keys))+" ORDER BY tenant_id, hour, namespace_id, revision", keyArgs(keys)...)
}

// ReviseUsage writes a row of the ledger for an hour that is closed, and adds what it has more
// than the row before it to its day.
func (t *Tx) ReviseUsage(ctx context.Context, v UsageHour, more Counts) error {
	if err := usageHours.insert(ctx, t.across(), v); err != nil {
		return err
	}
	more.StreamsPeak = v.StreamsPeak // Of which a day has the largest.
	_, err := t.across().exec(ctx, "add a revision to its day", "INSERT INTO usage_days (tenant_id, day, namespace_id, "+countColumns+") VALUES ("+places(9)+")"+addToDay,
		append([]any{v.TenantID, v.Hour / 24, v.NamespaceID}, more.fields()...)...)
	return err
}

// UsageAfter is where a walk over the ledger goes on.
type UsageAfter struct {
	Hour        int64
	NamespaceID string
	Revision    int64
}

// ListUsageHours lists a tenant's rows of the ledger, all revisions, of the hours before one.
func (t *Tx) ListUsageHours(ctx context.Context, tenantID string, after UsageAfter, before int64, limit int) ([]UsageHour, error) {
	return usageHours.list(ctx, t.of(tenantID), limit, `tenant_id = ? AND (hour, namespace_id, revision) > (?, ?, ?) AND hour < ?
		ORDER BY hour, namespace_id, revision`, tenantID, after.Hour, after.NamespaceID, after.Revision, before)
}

// UsageAt is what was counted in an hour or a day, by its number.
type UsageAt struct {
	At          int64
	NamespaceID string // Empty: of all.
	Counts
}

func (v *UsageAt) fields() []any { return append([]any{&v.At, &v.NamespaceID}, v.Counts.fields()...) }

// sums of the columns of counts.
func sums() string {
	var out []string
	for _, c := range list(countColumns) {
		out = append(out, "CAST(SUM("+c+") AS BIGINT)")
	}
	return strings.Join(out, ", ")
}

// UsageByHour reads what counts of the closed hours from one up to before another.
func (t *Tx) UsageByHour(ctx context.Context, tenantID string, from, to int64, byNamespace bool) ([]UsageAt, error) {
	if byNamespace {
		return query(ctx, t.of(tenantID), "read usage by hour", (*UsageAt).fields, "SELECT hour, namespace_id, "+countColumns+
			" FROM usage_hours AS h WHERE tenant_id = ? AND "+newest("usage_hours")+" ORDER BY hour, namespace_id LIMIT ?", tenantID, from, to, usageMax)
	}
	return query(ctx, t.of(tenantID), "read usage by hour", (*UsageAt).fields, "SELECT hour, '', "+sums()+
		" FROM usage_hours AS h WHERE tenant_id = ? AND "+newest("usage_hours")+" GROUP BY hour ORDER BY hour LIMIT ?", tenantID, from, to, usageMax)
}

// TenantUsage is what was counted of a tenant in an hour.
type TenantUsage struct {
	TenantHour
	Counts
}

// UsageOf reads what counts of some closed hours, of several tenants.
func (t *Tx) UsageOf(ctx context.Context, hours []TenantHour) ([]TenantUsage, error) {
	if len(hours) == 0 {
		return nil, nil
	}
	var args []any
	first, last := int64(math.MaxInt64), int64(0)
	for _, h := range hours {
		args = append(args, h.TenantID, h.Hour)
		first, last = min(first, h.Hour), max(last, h.Hour)
	}
	return query(ctx, t.across(), "read usage of hours", func(v *TenantUsage) []any { return append([]any{&v.TenantID, &v.Hour}, v.Counts.fields()...) },
		"SELECT tenant_id, hour, "+sums()+" FROM usage_hours AS h WHERE (tenant_id, hour) IN "+pairs(len(hours))+" AND "+newest("usage_hours")+" GROUP BY tenant_id, hour",
		append(args, first, last+1)...)
}

// newest is the condition that a row h of the hours of a span has the highest revision.
func newest(ledger string) string {
	return "hour >= ? AND hour < ? AND NOT EXISTS (SELECT 1 FROM " + ledger + ` AS n WHERE n.tenant_id = h.tenant_id
		AND n.hour = h.hour AND n.namespace_id = h.namespace_id AND n.revision > h.revision)`
}

// usageMax bounds what is read at a time: more than all hours of a month of 100 namespaces.
const usageMax = 100_000

// UsageByDay reads the sums of the closed hours of the days from one up to before another.
func (t *Tx) UsageByDay(ctx context.Context, tenantID string, from, to int64, byNamespace bool) ([]UsageAt, error) {
	if byNamespace {
		return query(ctx, t.of(tenantID), "read usage by day", (*UsageAt).fields, "SELECT day, namespace_id, "+countColumns+
			" FROM usage_days WHERE tenant_id = ? AND day >= ? AND day < ? ORDER BY day, namespace_id LIMIT ?", tenantID, from, to, usageMax)
	}
	return query(ctx, t.of(tenantID), "read usage by day", (*UsageAt).fields, "SELECT day, '', "+sums()+
		" FROM usage_days WHERE tenant_id = ? AND day >= ? AND day < ? GROUP BY day ORDER BY day LIMIT ?", tenantID, from, to, usageMax)
}

// OpenUsage reads what the readings of the hours from one on count so far.
func (t *Tx) OpenUsage(ctx context.Context, tenantID string, from int64) ([]UsageAt, error) {
	return query(ctx, t.of(tenantID), "read open usage", (*UsageAt).fields,
		counted("hour, namespace_id, ", "", "usage_readings WHERE tenant_id = ? AND hour >= ?"), tenantID, from)
}

// UsageLevel is what a namespace held when its shard told last.
type UsageLevel struct {
	TenantID, NamespaceID string
	Hour, Seq             int64
	OpenJobs, StoredBytes int64
}

var usageLevels = table[UsageLevel]{
	name: "usage_levels", columns: "tenant_id, namespace_id, hour, seq, open_jobs, stored_bytes",
	fields: func(v *UsageLevel) []any {
		return []any{&v.TenantID, &v.NamespaceID, &v.Hour, &v.Seq, &v.OpenJobs, &v.StoredBytes}
	},
}

// PutUsageLevels writes levels that are newer than those that are known. No two are of one
// namespace.
func (t *Tx) PutUsageLevels(ctx context.Context, levels []UsageLevel) error {
	var args []any
	for i := range levels {
		args = append(args, usageLevels.fields(&levels[i])...)
	}
	if len(levels) == 0 {
		return nil
	}
	_, err := t.across().exec(ctx, "put usage levels", "INSERT INTO usage_levels ("+usageLevels.columns+") VALUES "+rows(len(levels), 6)+`
		ON CONFLICT (tenant_id, namespace_id) DO UPDATE SET hour = excluded.hour, seq = excluded.seq, open_jobs = excluded.open_jobs, stored_bytes = excluded.stored_bytes
		WHERE (excluded.hour, excluded.seq) >= (usage_levels.hour, usage_levels.seq)`, args...)
	return err
}

// ListUsageLevels lists those of a tenant's namespaces.
func (t *Tx) ListUsageLevels(ctx context.Context, tenantID string) ([]UsageLevel, error) {
	return usageLevels.list(ctx, t.of(tenantID), usageMax, "tenant_id = ? ORDER BY namespace_id", tenantID)
}

// UsageAlarm is something that a source said that can't be.
type UsageAlarm struct {
	UsageKey
	Cell, Source, Epoch, Problem string
	FirstAt, LastAt              time.Time
	Times                        int64
}

var usageAlarms = table[UsageAlarm]{
	name: "usage_alarms", columns: "tenant_id, namespace_id, hour, cell, source, epoch, problem, first_at, last_at, times",
	fields: func(v *UsageAlarm) []any {
		return []any{&v.TenantID, &v.NamespaceID, &v.Hour, &v.Cell, &v.Source, &v.Epoch, &v.Problem, asTime{&v.FirstAt}, asTime{&v.LastAt}, &v.Times}
	},
}

// NoteUsageAlarm counts an alarm.
func (t *Tx) NoteUsageAlarm(ctx context.Context, v UsageAlarm, now time.Time) error {
	v.FirstAt, v.LastAt, v.Times = now, now, 1
	_, err := t.across().exec(ctx, "note usage alarm", "INSERT INTO usage_alarms ("+usageAlarms.columns+") VALUES ("+places(10)+`)
		ON CONFLICT (tenant_id, namespace_id, hour, cell, source, epoch, problem) DO UPDATE SET last_at = excluded.last_at, times = usage_alarms.times + 1`,
		usageAlarms.fields(&v)...)
	return err
}

// ListUsageAlarms lists those since a time, newest first.
func (t *Tx) ListUsageAlarms(ctx context.Context, since time.Time, limit int) ([]UsageAlarm, error) {
	return usageAlarms.list(ctx, t.across(), limit, "last_at >= ? ORDER BY last_at DESC, tenant_id, namespace_id, hour", since)
}

// TouchUsage notes that tenants' readings or limits changed.
func (t *Tx) TouchUsage(ctx context.Context, tenantIDs []string, now time.Time) error {
	var args []any
	for _, id := range tenantIDs {
		args = append(args, id, now)
	}
	if len(args) == 0 {
		return nil
	}
	_, err := t.across().exec(ctx, "touch usage", "INSERT INTO usage_changes (tenant_id, changed_at) VALUES "+rows(len(tenantIDs), 2)+
		" ON CONFLICT (tenant_id) DO UPDATE SET changed_at = excluded.changed_at", args...)
	return err
}

// TouchUsageOf notes that of one tenant.
func (t *Tx) TouchUsageOf(ctx context.Context, tenantID string, now time.Time) error {
	_, err := t.of(tenantID).exec(ctx, "touch usage", "INSERT INTO usage_changes (tenant_id, changed_at) SELECT tenant_id, CAST(? AS BIGINT) FROM tenants WHERE tenant_id = ?"+
		" ON CONFLICT (tenant_id) DO UPDATE SET changed_at = excluded.changed_at", now, tenantID)
	return err
}

// UsageChange is when a tenant's readings or limits changed last.
type UsageChange struct {
	TenantID  string
	ChangedAt time.Time
}

// ChangedUsage lists the tenants whose readings or limits changed after a change, the oldest
// change first.
func (t *Tx) ChangedUsage(ctx context.Context, after UsageChange, limit int) ([]UsageChange, error) {
	into := func(v *UsageChange) []any { return []any{&v.TenantID, asTime{&v.ChangedAt}} }
	return query(ctx, t.across(), "list changed usage", into,
		"SELECT tenant_id, changed_at FROM usage_changes WHERE (changed_at, tenant_id) > (?, ?) ORDER BY changed_at, tenant_id LIMIT ?", after.ChangedAt, after.TenantID, limit)
}

// DeleteUsageReadings deletes up to limit readings of a cell's hours before one, and counts
// them.
func (t *Tx) DeleteUsageReadings(ctx context.Context, cell string, before int64, limit int) (int, error) {
	return t.across().exec(ctx, "delete usage readings", "DELETE FROM usage_readings WHERE (tenant_id, hour, namespace_id, cell, source, epoch) IN (SELECT "+
		"tenant_id, hour, namespace_id, cell, source, epoch FROM usage_readings WHERE cell = ? AND hour < ? ORDER BY hour, tenant_id LIMIT ?)", cell, before, limit)
}

// TenantsOfNamespaces maps namespaces, deleted ones too, to their tenants.
func (t *Tx) TenantsOfNamespaces(ctx context.Context, ids []string) (map[string]string, error) {
	type owned struct{ id, tenantID string }
	var args []any
	for _, id := range ids {
		args = append(args, id)
	}
	if len(args) == 0 {
		return nil, nil
	}
	found, err := query(ctx, t.across(), "find tenants of namespaces", func(v *owned) []any { return []any{&v.id, &v.tenantID} },
		"SELECT id, tenant_id FROM namespaces WHERE id IN ("+places(len(args))+")", args...)
	out := make(map[string]string, len(found))
	for _, f := range found {
		out[f.id] = f.tenantID
	}
	return out, err
}

// NamespaceNames maps a tenant's namespaces, deleted ones too, to their names.
func (t *Tx) NamespaceNames(ctx context.Context, tenantID string) (map[string]string, error) {
	type named struct{ id, name string }
	found, err := query(ctx, t.of(tenantID), "list names of namespaces", func(v *named) []any { return []any{&v.id, &v.name} },
		"SELECT id, name FROM namespaces WHERE tenant_id = ? LIMIT ?", tenantID, usageMax)
	out := make(map[string]string, len(found))
	for _, f := range found {
		out[f.id] = f.name
	}
	return out, err
}

// HeldTenants are the tenants after one of which a limit holds something back.
func (t *Tx) HeldTenants(ctx context.Context, limit, after string, most int) ([]string, error) {
	return query(ctx, t.across(), "list held tenants", single[string],
		"SELECT tenant_id FROM tenant_holds WHERE limit_name = ? AND tenant_id > ? ORDER BY tenant_id LIMIT ?", limit, after, most)
}
