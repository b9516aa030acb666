package state

import (
	"strconv"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// The texts that apply stores without having got them in the entry. They are a part of the
// stored form: a program with other words would make a replica that differs. A better
// text is a new one beside the old, chosen by the version of the entry.

const (
	leaseExpiredText     = "lease expired: the worker did not renew it in time"
	iterationTimeoutText = "iteration timed out"
)

func iterationsReachedText(iterations, limit uint32) string {
	return "max_iterations reached: " + strconv.FormatUint(uint64(iterations), 10) + " of " + strconv.FormatUint(uint64(limit), 10)
}

func costReachedText(cost, limit int64) string {
	return "max_cost_usd reached: " + job.FormatDollars(cost) + " of " + job.FormatDollars(limit)
}

func tagSpentText(tag string) string { return "the budget of tag " + tag + " is spent for today" }

func overspentText(limit int64, scope command.BudgetScope, target string) string {
	of := "the namespace"
	switch scope {
	case command.BudgetQueue:
		of = "queue " + target
	case command.BudgetTag:
		of = "tag " + target
	}
	return "cost more than " + job.FormatDollars(limit) + " dollars, the limit for one job of " + of
}

func policyText(name string) string {
	return `approval policy "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}
