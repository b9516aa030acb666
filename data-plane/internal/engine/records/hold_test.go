package records

import (
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
)

func TestHoldCause_EveryRuleComesBackAndHasItsWords(t *testing.T) {
	said := map[HoldRule]bool{}
	for want, c := range map[string]HoldCause{
		"please look":                                 {Text: "please look"},
		`approval policy "big \"ones\" \\ é"`:         {Rule: HeldByPolicy, Text: `big "ones" \ é`},
		"the budget of tag team=a is spent for today": {Rule: HeldForTag, Text: "team=a"},
		"cost more than 0.000000002 dollars, the limit for one job of the namespace": {Rule: HeldForCost, Scope: command.BudgetGlobal, Text: AllTarget, Limit: 2},
		"cost more than 1 dollars, the limit for one job of queue mails":             {Rule: HeldForCost, Scope: command.BudgetQueue, Text: "mails", Limit: 1e9},
		"cost more than 1 dollars, the limit for one job of tag team=a":              {Rule: HeldForCost, Scope: command.BudgetTag, Text: "team=a", Limit: 1e9},
		"max_iterations reached: 7 of 5":                                             {Rule: HeldAtIterations, Reached: 7, Limit: 5},
		"max_cost_usd reached: 1.5 of 1":                                             {Rule: HeldAtCost, Reached: 1_500_000_000, Limit: 1_000_000_000},
	} {
		said[c.Rule] = true
		h, err := DecodeHold((&Hold{Cause: c}).Encode())
		if err != nil || h.Cause != c || h.Cause.String() != want {
			t.Errorf("%+v is read as %+v, which says %q (%v), want %q", c, h.Cause, h.Cause.String(), err, want)
		}
	}
	for r := range holdRulesEnd {
		if !said[r] {
			t.Errorf("rule %d has no case", r)
		}
	}
	if _, err := DecodeHold((&Hold{Cause: HoldCause{Rule: holdRulesEnd}}).Encode()); err == nil {
		t.Error("a rule of a newer program was read")
	}
}
