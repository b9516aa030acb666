package mixed

import (
	"strings"
	"testing"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
	"github.com/corvo-cloud/corvo/services/e2e/history"
)

// What was acknowledged is there, in the batch in which it was.
func TestLoad_WhatIsGoneIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		breach string
		job    *corvo.JobInfo
	}{
		{"INV-1: m was acknowledged", nil},
		{`INV-10: m was acknowledged in the batch "b" and is in ""`, &corvo.JobInfo{}},
		{`INV-10: m was acknowledged in the batch "b" and is in "c"`, &corvo.JobInfo{BatchID: "c"}},
		{"", &corvo.JobInfo{BatchID: "b"}},
	} {
		l := New("", "", "")
		members := &corvo.Batch{ID: "b", Jobs: []*corvo.Enqueued{{ID: "m"}}}
		l.ack(members.Jobs...)
		l.ackBatch(members)
		r := &history.Record{Jobs: map[string]*corvo.JobInfo{}}
		if tt.job != nil {
			r.Jobs["m"] = tt.job
		}
		found := strings.Join(l.Check(r, time.Now()), "\n")
		if !strings.Contains(found, tt.breach) || tt.breach == "" && strings.Contains(found, "acknowledged") {
			t.Errorf("found %q, want %q", found, tt.breach)
		}
	}
}
