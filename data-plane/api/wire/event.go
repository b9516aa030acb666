package wire

// Event is the data of one frame.
type Event struct {
	Seq   uint64     `json:"seq"`
	Type  EventType  `json:"type"`
	AtNS  int64      `json:"at_ns"`
	JobID string     `json:"job_id,omitempty"`
	Queue string     `json:"queue,omitempty"`
	Data  *EventData `json:"data,omitempty"`
}

// EventData: a job whose event has no From did not change its state by it, but for
// those that made the job.
type EventData struct {
	State   State  `json:"state,omitempty"`
	From    State  `json:"from,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Code    Code   `json:"code,omitempty"`   // Of end.
	Reason  string `json:"reason,omitempty"` // Of gap and end.
}

// EventPage is a page of events. Lost: some behind after_seq are no longer kept.
type EventPage struct {
	Events []*Event `json:"events"`
	Lost   bool     `json:"lost,omitempty"`
}
