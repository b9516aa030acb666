package shard

import (
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
)

func TestWeight_CountsEverythingACallerMaySendAtLength(t *testing.T) {
	t.Parallel()
	c := &command.Enqueue{NS: stepNS, Queue: "q", Retry: command.DefaultRetry(), UniqueKey: string(make([]byte, 256)), IdempotencyKey: string(make([]byte, 256))}
	for range 64 {
		c.Tags = append(c.Tags, command.Tag{Key: string(make([]byte, 256)), Value: string(make([]byte, 256))})
	}
	r := Request{After: []command.Command{c}}
	if got, size := weight(&r), len(command.Encode(r.After)); got < size*9/10 {
		t.Fatalf("a command of %d bytes weighs %d: entries would grow beyond their limit", size, got)
	}
}

// Renewals write nothing, but each is a read between two entries.
func TestGather_RenewalsFillAnEntryToo(t *testing.T) {
	t.Parallel()
	b := &batch{}
	for !b.full() && len(b.requests) < entryCmdsMax {
		b.add(&request{Request: Request{Renew: make([]Renewal, 512)}})
	}
	if n := len(b.requests) * 512; n > 2*entryCmdsMax {
		t.Fatalf("one entry looks up %d leases", n)
	}
}
