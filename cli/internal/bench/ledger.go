package bench

import (
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// ledger remembers every job by a 64-bit hash of its id: eight bytes a job, and
// at ten million jobs a chance of 1 in 300,000 that two ids meet.
type ledger struct {
	mu    sync.Mutex // Guards books. A book belongs to one caller while it runs.
	books []*book
}

// book is one caller's part.
type book struct {
	enqueued  []uint64
	delivered []uint64
	refused   int // Acks the server did not take.
	// samples are ids of some of the delivered, to look at later.
	samples []string
}

// sampleEvery is how many jobs of a book are handed out for each of which the id is kept.
const sampleEvery = 1000

func (l *ledger) book() *book {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := &book{}
	l.books = append(l.books, b)
	return b
}

func (b *book) added(ids []string) {
	for _, id := range ids {
		b.enqueued = append(b.enqueued, xxhash.Sum64String(id))
	}
}

func (b *book) handed(jobs []lease) {
	for _, j := range jobs {
		if len(b.delivered)%sampleEvery == 0 {
			b.samples = append(b.samples, j.id)
		}
		b.delivered = append(b.delivered, xxhash.Sum64String(j.id))
	}
}

// Check is the proof of a run.
type Check struct {
	Enqueued   int `json:"enqueued"`
	Delivered  int `json:"delivered"`
	Lost       int `json:"lost"`       // Accepted and never handed out.
	Duplicated int `json:"duplicated"` // Handed out more than once.
	Unexpected int `json:"unexpected"` // Handed out and never accepted by this run.
	Refused    int `json:"refused"`    // Acks that were not taken.
	Remaining  int `json:"remaining"`  // Left on purpose: a backlog that was kept.
}

// balance compares the books. Callers must have finished. keep is how many
// enqueued jobs were left in the queue on purpose.
func (l *ledger) balance(keep int) Check {
	var in, out []uint64
	var c Check
	for _, b := range l.books {
		in = append(in, b.enqueued...)
		out = append(out, b.delivered...)
		c.Refused += b.refused
	}
	slices.Sort(in)
	slices.Sort(out)
	c.Enqueued, c.Delivered = len(in), len(out)
	for i, j := 0, 0; i < len(in) || j < len(out); {
		switch {
		case j > 0 && j < len(out) && out[j] == out[j-1]:
			c.Duplicated++
			j++
		case j == len(out) || i < len(in) && in[i] < out[j]:
			c.Lost++
			i++
		case i == len(in) || out[j] < in[i]:
			c.Unexpected++
			j++
		default:
			i++
			j++
		}
	}
	c.Remaining = min(keep, c.Lost)
	c.Lost -= c.Remaining
	return c
}

// problems says in words what is wrong; empty means the run counts.
func (c Check) problems() []string {
	var all []string
	add := func(n int, what string) {
		if n != 0 {
			all = append(all, plural(n)+" "+what)
		}
	}
	add(c.Lost, "lost: accepted and never handed out")
	add(c.Duplicated, "handed out twice")
	add(c.Unexpected, "handed out that this run did not enqueue")
	add(c.Refused, "fetched whose ack was refused")
	return all
}
