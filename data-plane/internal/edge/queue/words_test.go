package queue

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
)

// Where a list of words says which number of the engine each of them is, its order is fixed.
func TestWire_WordsStandInTheOrderOfTheEngine(t *testing.T) {
	t.Parallel()
	equal(t, "scopes", texts(wire.BudgetScopes()), inOrder(map[int]wire.BudgetScope{
		0: wire.BudgetGlobal, int(command.BudgetQueue - command.BudgetGlobal): wire.BudgetQueue, int(command.BudgetTag - command.BudgetGlobal): wire.BudgetTag,
	}))
	equal(t, "spent budgets", texts(wire.OnExceeds()), inOrder(map[int]wire.OnExceed{
		int(command.ExceedHold): wire.ExceedHold, int(command.ExceedReject): wire.ExceedReject, int(command.ExceedAlert): wire.ExceedAlertOnly,
	}))
	equal(t, "overlaps", texts(wire.Overlaps()), inOrder(map[int]wire.Overlap{
		int(command.OverlapAllow): wire.OverlapAllow, int(command.OverlapSkip): wire.OverlapSkip, int(command.OverlapCancel): wire.OverlapCancel,
	}))
	equal(t, "catching up", texts(wire.CatchUps()), inOrder(map[int]wire.CatchUp{
		int(command.CatchUpOnce): wire.CatchUpOnce, int(command.CatchUpSkip): wire.CatchUpSkip, int(command.CatchUpAll): wire.CatchUpAll,
	}))
	equal(t, "dependencies", texts(wire.DependencyPolicies()), inOrder(map[int]wire.DependencyPolicy{
		int(command.DependencyFail): wire.DependencyFail, int(command.DependencyRun): wire.DependencyRun, int(command.DependencyCancel): wire.DependencyCancel,
	}))
}

func inOrder[W ~string](byNumber map[int]W) []string {
	out := make([]string, len(byNumber))
	for i, w := range byNumber {
		out[i] = string(w)
	}
	return out
}

func texts[W ~string](words []W) []string {
	return each(words, func(w *W) string { return string(*w) })
}

func TestWire_EveryBulkActionIsKnown(t *testing.T) {
	t.Parallel()
	known := each(bulkActions, func(a *bulkAction) string { return string(a.word) })
	slices.Sort(known)
	equal(t, "actions", known, slices.Sorted(slices.Values(texts(wire.BulkActions()))))
}

func TestWire_DollarsKeepEveryDigit(t *testing.T) {
	t.Parallel()
	for nanos, want := range map[int64]string{0: `{"max_iterations":1,"iteration":0,"total_cost_usd":0}`, 1: `{"max_iterations":1,"max_cost_usd":0.000000001,"iteration":0,"total_cost_usd":0.000000001}`} {
		got, err := json.Marshal(wire.Agent{MaxIterations: 1, MaxCostUSD: dollars(nanos), TotalCostUSD: dollars(nanos)})
		if fmt.Sprint(string(got), err) != fmt.Sprint(want, nil) {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}
