package wire

import (
	"time"
)

// Budget is a limit on what models may cost.
type Budget struct {
	ID        string      `json:"id"`
	Scope     BudgetScope `json:"scope"`
	Target    string      `json:"target"`
	DailyUSD  Dollars     `json:"daily_usd,omitempty"`
	PerJobUSD Dollars     `json:"per_job_usd,omitempty"`
	OnExceed  OnExceed    `json:"on_exceed"`
	SpentUSD  Dollars     `json:"spent_usd"` // Of the current UTC day.
	CreatedAt time.Time   `json:"created_at"`
}

// ApprovalPolicy says which jobs wait for a person.
type ApprovalPolicy struct {
	ID           string     `json:"id"`
	Name         string     `json:"name"`
	Mode         PolicyMode `json:"mode"`
	Enabled      bool       `json:"enabled"`
	Queue        string     `json:"queue,omitempty"`
	TagKey       string     `json:"tag_key,omitempty"`
	TagValue     string     `json:"tag_value,omitempty"`
	Approvers    []string   `json:"approvers,omitempty"`
	ExpiresAfter string     `json:"expires_after,omitempty"`
	OnExpire     OnExpire   `json:"on_expire"`
	CreatedAt    time.Time  `json:"created_at"`
}

// Usage counts what models were used for.
type Usage struct {
	InputTokens         int64   `json:"input_tokens"`
	OutputTokens        int64   `json:"output_tokens"`
	CacheCreationTokens int64   `json:"cache_creation_tokens"`
	CacheReadTokens     int64   `json:"cache_read_tokens"`
	CostUSD             Dollars `json:"cost_usd"`
	Count               int64   `json:"count"` // Attempts that reported, each once per model.
}

// JobUsage is what a job reported over all its attempts.
type JobUsage struct {
	Usage
	Models []ModelUsage `json:"models"`
}

// ModelUsage is the usage of one model.
type ModelUsage struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
	Usage
}

// UsageSummary is the usage of a namespace over a period.
type UsageSummary struct {
	Period string       `json:"period"`
	From   time.Time    `json:"from"` // The beginning of an hour.
	To     time.Time    `json:"to"`
	Totals Usage        `json:"totals"`
	Groups []UsageGroup `json:"groups"`
}

// UsageGroup is the part of one queue, model or provider.
type UsageGroup struct {
	Key string `json:"key"`
	Usage
}
