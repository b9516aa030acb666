package plans

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// under is what a tenant may have with another plan, with the overrides that count at a time.
func under(ctx context.Context, tx *store.Tx, tenantID string, p store.PlanVersion, at time.Time) (Entitlements, error) {
	list, err := tx.ListOverrides(ctx, tenantID)
	if err != nil {
		return Entitlements{}, err
	}
	e := Entitlements{store.Entitled{Plan: p.Plan, Version: p.Version, Title: p.Title, OverLimit: p.OverLimit, Values: maps.Clone(p.Entitlements)}}
	for _, o := range list {
		switch {
		case !live(o, at):
		case o.Unlimited:
			delete(e.Values, o.Name)
		default:
			e.Values[o.Name] = o.Value
		}
	}
	return e, nil
}

func live(o store.Override, at time.Time) bool { return o.EndsAt.IsZero() || at.Before(o.EndsAt) }

// wontFit names each thing that a tenant has and other entitlements don't give.
func (s *Service) wontFit(ctx context.Context, tx *store.Tx, tenantID string, e Entitlements) (wrong []fault.Field, _ error) {
	for _, c := range []Counted{Namespaces, Members, Keys} {
		n, err := c.count(tx, ctx, tenantID)
		if err != nil {
			return nil, err
		}
		if most, limited := c.most(e); limited && int64(n) > most {
			wrong = append(wrong, tooMany(c.max, int64(n), most, e.Plan))
		}
	}
	features, err := s.featuresInUse(ctx, tx, tenantID)
	if err != nil {
		return nil, err
	}
	for _, f := range features {
		if f.n > 0 && !e.Has(f.name) {
			wrong = append(wrong, fault.Field{Name: f.name, Problem: fmt.Sprintf("%d in use, and the plan %s has none: delete %s first", f.n, e.Plan, f.what)})
		}
	}
	keeps, err := keepsTooLong(ctx, tx, tenantID, e)
	if err != nil {
		return nil, err
	}
	wrong = append(wrong, keeps...)
	if s.Used == nil {
		return wrong, nil
	}
	used, err := s.Used(ctx, tx, tenantID, s.Now())
	if err != nil {
		return nil, err
	}
	for _, u := range used.all() {
		if most, limited := e.Max(u.name); limited && u.n > most && u.name != "jobs_per_month_max" { // The next month begins with none.
			wrong = append(wrong, tooMany(u.name, u.n, most, e.Plan))
		}
	}
	return wrong, nil
}

func tooMany(name string, n, most int64, plan string) fault.Field {
	is, _ := entitlementOf(name)
	return fault.Field{Name: name, Problem: fmt.Sprintf("%s: %d in use, the plan %s allows %d", lowerFirst(is.title), n, plan, most)}
}

type featureUse struct {
	name, what string
	n          int
}

func (s *Service) featuresInUse(ctx context.Context, tx *store.Tx, tenantID string) ([]featureUse, error) {
	connections, err := tx.ListConnections(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	tokens := 0
	for _, c := range connections {
		list, err := tx.ListScimTokens(ctx, tenantID, c.ID)
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			if t.RevokedAt.IsZero() && s.Now().Before(t.ExpiresAt) {
				tokens++
			}
		}
	}
	sinks, err := tx.ListAuditSinks(ctx, tenantID)
	if err != nil {
		return nil, err
	}
	roles, err := tx.CountRoles(ctx, tenantID)
	return []featureUse{
		{FeatureSSO, "the single sign-on connections", len(connections)}, {FeatureSCIM, "the tokens of directories", tokens},
		{FeatureAuditSinks, "the audit sinks", len(sinks)}, {FeatureCustomRoles, "the custom roles", roles},
	}, err
}

// keepsTooLong names the namespaces that were set to keep more: what is older would be
// deleted.
func keepsTooLong(ctx context.Context, tx *store.Tx, tenantID string, e Entitlements) (wrong []fault.Field, _ error) {
	for n, err := range tx.AllNamespaces(ctx, tenantID) {
		if err != nil {
			return nil, err
		}
		for _, own := range []struct {
			name string
			n    int64
		}{
			{"completed_seconds", n.Retention.Completed}, {"dead_seconds", n.Retention.Dead}, {"cancelled_seconds", n.Retention.Cancelled},
			{"finished_max", n.Retention.FinishedMax}, {"events_seconds", n.Retention.Events}, {"events_bytes_max", n.Retention.EventsBytes}, {"usage_seconds", n.Retention.Usage},
		} {
			if most, limited := e.Max(kept + own.name + "_max"); limited && own.n > most {
				wrong = append(wrong, fault.Field{Name: kept + own.name + "_max", Problem: fmt.Sprintf("namespace %s is set to keep %d, the plan %s keeps at most %d", n.Name, own.n, e.Plan, most)})
			}
		}
	}
	return wrong, nil
}

// problems are fields as lines for people.
func problems(wrong []fault.Field) (out []string) {
	for _, f := range wrong {
		out = append(out, f.Problem)
	}
	return out
}

func lowerFirst(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if strings.HasPrefix(s, "API") {
		return s
	}
	return string(unicode.ToLower(r)) + s[n:]
}
