package wire

// ExportPage is GET /api/v1/jobs/export: whole jobs by id, the oldest first. The next page
// begins after LastID, which is that of the last job looked at, whether it is in the page
// or not.
type ExportPage struct {
	Jobs    []Job  `json:"jobs"`
	LastID  string `json:"last_id,omitempty"`
	HasMore bool   `json:"has_more"`
}
