package queue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/shard"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// Limits of usage and money. One report is far below what a sum can hold.
const (
	UsageTokensMax    = 1_000_000_000_000
	UsageNameBytesMax = 128 // Of models and providers.
	DollarsMax        = 1_000_000
	costMax           = DollarsMax * job.NanosPerDollar
	UsagePeriodMax    = 400 * 24 * time.Hour // Of a summary.
	UsageGroupsMax    = 1000                 // Of a summary; beyond that, the cheapest share one group.
	usageRowsMax      = 500_000              // Read for a summary.
)

// UsageReport is the use of a model, as reported by a worker.
type UsageReport struct {
	InputTokens, OutputTokens, CacheCreationTokens, CacheReadTokens int64
	Cost                                                            int64 // Nano-dollars.
	Model, Provider                                                 string
	Kind                                                            wire.UsageKind // "" is the default.
}

// Empty: clients send an empty report when their user gave none.
func (u *UsageReport) Empty() bool { return *u == UsageReport{Kind: u.Kind} }

// CheckReport lists what is wrong with a report; nil is none.
func (u *UsageReport) CheckReport() []fault.Field {
	var bad checker
	if u == nil {
		return nil
	}
	for _, n := range []struct {
		path  string
		value int64
	}{
		{"input_tokens", u.InputTokens}, {"output_tokens", u.OutputTokens},
		{"cache_creation_tokens", u.CacheCreationTokens}, {"cache_read_tokens", u.CacheReadTokens},
	} {
		if n.value < 0 || n.value > UsageTokensMax {
			bad.failf("usage."+n.path, "is %d, must be between 0 and %d", n.value, int64(UsageTokensMax))
		}
	}
	bad.dollars("usage.cost_usd", u.Cost)
	bad.text("usage.model", u.Model, UsageNameBytesMax)
	bad.text("usage.provider", u.Provider, UsageNameBytesMax)
	if _, ok := wordIn(wire.UsageKinds(), u.Kind); !ok {
		bad.failf("usage.kind", "is %q, must be total or delta", clip(u.Kind))
	}
	return bad
}

// dollars checks an amount of nano-dollars.
func (c *checker) dollars(path string, nanos int64) {
	if nanos < 0 || nanos > costMax {
		c.failf(path, "is %s, must be between 0 and %d dollars", job.FormatDollars(nanos), DollarsMax)
	}
}

func (u *UsageReport) command() *command.Usage {
	if u == nil {
		return nil
	}
	return &command.Usage{
		Input: u.InputTokens, Output: u.OutputTokens, CacheCreation: u.CacheCreationTokens, CacheRead: u.CacheReadTokens,
		Cost: u.Cost, Model: u.Model, Provider: u.Provider, Total: u.Kind != wire.UsageDelta,
	}
}

func viewUsage(m records.Meter) wire.Usage {
	return wire.Usage{
		InputTokens: m.Input, OutputTokens: m.Output, CacheCreationTokens: m.CacheCreation, CacheReadTokens: m.CacheRead,
		CostUSD: dollars(m.Cost), Count: m.Attempts,
	}
}

func viewJobUsage(u *records.JobUsage) *wire.JobUsage {
	if u == nil {
		return nil
	}
	return &wire.JobUsage{Usage: viewUsage(u.Sum()), Models: each(u.Lines, func(l *records.UsageLine) wire.ModelUsage {
		return wire.ModelUsage{Provider: l.Provider, Model: l.Model, Usage: viewUsage(l.Sum)}
	})}
}

// UsageQuery asks for a summary; empty members take their defaults.
type UsageQuery struct {
	Period  string // Such as 24h, which is the default, or 7d.
	GroupBy string // queue, which is the default, model or provider.
}

// usageOther is the key of the groups beyond UsageGroupsMax, together.
const usageOther = "(other)"

// UsageSummary adds up the hours of a period, the current one included.
func (s *Service) UsageSummary(ctx context.Context, c Caller, in UsageQuery) (wire.UsageSummary, error) {
	in.Period, in.GroupBy = cmp.Or(in.Period, "24h"), cmp.Or(in.GroupBy, "queue")
	period, key, fields := in.read()
	if len(fields) > 0 {
		return wire.UsageSummary{}, fault.InvalidFields(fields)
	}
	now := s.now().UTC()
	from := now.Add(-period).Truncate(time.Hour)
	return shard.Read(ctx, s.shard, func(g *statedb.Group) (wire.UsageSummary, error) {
		var total records.Meter
		groups := map[string]records.Meter{}
		rows := 0
		to := uint64(now.Unix()/3600) + 1
		err := stateread.ReadUsage(g, c.Namespace, uint64(from.Unix()/3600), to, func(u stateread.HourUsage) bool {
			total = total.Plus(u.Meter)
			groups[key(&u)] = groups[key(&u)].Plus(u.Meter)
			rows++
			return rows <= usageRowsMax
		})
		if err == nil && rows > usageRowsMax {
			err = fault.InvalidFields([]fault.Field{{Path: "period", Message: "covers too much data; use a shorter period"}})
		}
		return wire.UsageSummary{Period: in.Period, From: from, To: now, Totals: viewUsage(total), Groups: usageGroups(groups)}, err
	})
}

// usageGroups has the most expensive first.
func usageGroups(groups map[string]records.Meter) []wire.UsageGroup {
	keys := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Or(cmp.Compare(groups[b].Cost, groups[a].Cost), cmp.Compare(groups[b].Input, groups[a].Input), cmp.Compare(a, b))
	})
	view := func(key *string) wire.UsageGroup { return wire.UsageGroup{Key: *key, Usage: viewUsage(groups[*key])} }
	if len(keys) <= UsageGroupsMax {
		return each(keys, view)
	}
	var rest records.Meter
	for _, key := range keys[UsageGroupsMax-1:] {
		rest = rest.Plus(groups[key])
	}
	return append(each(keys[:UsageGroupsMax-1], view), wire.UsageGroup{Key: usageOther, Usage: viewUsage(rest)})
}

// read lists everything that is wrong.
func (in *UsageQuery) read() (period time.Duration, key func(*stateread.HourUsage) string, fields []fault.Field) {
	period, err := parsePeriod(in.Period)
	if err != nil || period <= 0 || period > UsagePeriodMax {
		fields = append(fields, fault.Field{
			Path: "period", Message: fmt.Sprintf("is %q, must be a duration such as 24h or 7d, at most %dd", clip(in.Period), UsagePeriodMax/(24*time.Hour)),
		})
	}
	switch in.GroupBy {
	case "queue":
		key = func(u *stateread.HourUsage) string { return u.Queue }
	case "model":
		key = func(u *stateread.HourUsage) string { return u.Model }
	case "provider":
		key = func(u *stateread.HourUsage) string { return u.Provider }
	default:
		fields = append(fields, fault.Field{Path: "group_by", Message: fmt.Sprintf("is %q, must be queue, model or provider", clip(in.GroupBy))})
	}
	return period, key, fields
}

func parsePeriod(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	return time.Duration(n) * 24 * time.Hour, err
}
