package month_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/stripetest"
)

// postman carries Stripe's events: some twice, some late and so in another order, some never.
// One that isn't taken is sent again, as Stripe does.
type postman struct {
	*world
	rng    *rand.Rand
	client *http.Client

	mu   sync.Mutex // Guards the rest.
	fair bool       // Every event arrives, and soon.
	bag  []letter
	sent map[string]int
}

type letter struct {
	stripetest.Event
	due time.Time
}

func startPostman(w *world) *postman {
	p := &postman{world: w, rng: w.rng(ofEvents), client: &http.Client{Timeout: 30 * time.Second}, sent: make(map[string]int)}
	ctx, stop := context.WithCancel(context.Background())
	var walking sync.WaitGroup
	walking.Go(func() {
		for ctx.Err() == nil {
			p.round(ctx)
			time.Sleep(50 * time.Millisecond) // A pace.
		}
	})
	w.t.Cleanup(func() { stop(); walking.Wait() })
	return p
}

// round takes what is new, and carries what is due.
func (p *postman) round(ctx context.Context) {
	p.mu.Lock()
	for _, e := range p.stripe.Events() {
		p.take(e)
	}
	now := p.now()
	var due, later []letter
	for _, l := range p.bag {
		if l.due.After(now) {
			later = append(later, l)
			continue
		}
		due = append(due, l)
	}
	p.bag = later
	p.rng.Shuffle(len(due), func(i, j int) { due[i], due[j] = due[j], due[i] })
	p.mu.Unlock()
	for _, l := range due {
		if p.carry(ctx, l) != http.StatusOK {
			p.mu.Lock()
			p.sent["again"]++
			p.bag = append(p.bag, letter{l.Event, p.now().Add(10 * time.Minute)})
			p.mu.Unlock()
		}
	}
}

// take decides what becomes of an event. It is called with mu held.
func (p *postman) take(e stripetest.Event) {
	now := p.now()
	n := p.rng.IntN(10)
	if p.fair {
		n = 9
	}
	switch {
	case n < 1:
		p.sent["lost"]++
	case n < 3:
		p.sent["twice"]++
		p.bag = append(p.bag, letter{e, now}, letter{e, now.Add(time.Duration(p.rng.Int64N(int64(12 * time.Hour))))})
	case n < 6:
		p.sent["late"]++
		p.bag = append(p.bag, letter{e, now.Add(time.Duration(p.rng.Int64N(int64(12 * time.Hour))))})
	default:
		p.sent["at once"]++
		p.bag = append(p.bag, letter{e, now})
	}
}

func (p *postman) carry(ctx context.Context, l letter) (status int) {
	to := p.controls[p.rng.IntN(controls)].place.URL + "/stripe/webhook"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(l.Body))
	if err != nil {
		p.t.Error(err)
		return http.StatusOK
	}
	r.Header.Set("Stripe-Signature", stripetest.Sign(l.Body, webhookSecret, p.now()))
	res, err := p.client.Do(r)
	if err != nil {
		return 0
	}
	if err := res.Body.Close(); err != nil {
		return 0
	}
	return res.StatusCode
}

// setFair makes every event arrive.
func (p *postman) setFair(fair bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fair = fair
}

func (p *postman) report(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	t.Logf("events of Stripe: %v", p.sent)
}
