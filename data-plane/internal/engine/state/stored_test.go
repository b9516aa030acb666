package state

import (
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
)

// A text that differs here differs between the replicas of two builds: leave it, and add
// another one that a version of the cell switches on.
func TestStored_TextsOfVersion1AreFixedForEver(t *testing.T) {
	for got, want := range map[string]string{
		leaseExpiredText:                                 "lease expired: the worker did not renew it in time",
		iterationTimeoutText:                             "iteration timed out",
		iterationsReachedText(7, 5):                      "max_iterations reached: 7 of 5",
		costReachedText(1_500_000_000, 1_000_000_000):    "max_cost_usd reached: 1.5 of 1",
		tagSpentText("team=a"):                           "the budget of tag team=a is spent for today",
		overspentText(2, command.BudgetGlobal, ""):       "cost more than 0.000000002 dollars, the limit for one job of the namespace",
		overspentText(1e9, command.BudgetQueue, "mails"): "cost more than 1 dollars, the limit for one job of queue mails",
		overspentText(1e9, command.BudgetTag, "team=a"):  "cost more than 1 dollars, the limit for one job of tag team=a",
		policyText(`big "ones" \ é`):                     `approval policy "big \"ones\" \\ é"`,
		string(appendText(nil, "<a>\x01\u2028\xff")):     `"\u003ca\u003e\u0001\u2028\ufffd"`,
	} {
		if got != want {
			t.Errorf("stored %q, want %q", got, want)
		}
	}
}
