package conformance

// Subjects are all rules, in the order of a job's life.
func Subjects() []Subject {
	return []Subject{
		{"enqueue", enqueueRules},
		{"limits", limitRules},
		{"texts", textRules},
		{"work", workRules},
		{"states", stateRules},
		{"queues", queueRules},
		{"clear", clearRules},
		{"move", moveRules},
		{"dead letters", deadRules},
		{"search", searchRules},
		{"bulk", bulkRules},
		{"chains", chainRules},
		{"batches", batchRules},
		{"dependencies", dependencyRules},
		{"agents", agentRules},
		{"schedules", scheduleRules},
		{"budgets", budgetRules},
		{"approvals", policyRules},
		{"events", eventRules},
		{"why", whyRules},
		{"workers", workerRules},
		{"throughput", throughputRules},
	}
}
