package stripetest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	renewEvery = time.Minute
	retryFirst = time.Second
	retryMax   = time.Minute
)

// Webhook is where events are sent, and the secret that signs them.
type Webhook struct{ URL, Secret string }

// Run sends each event to a webhook until it is taken, one after the other, and renews
// subscriptions when their period is over, until ctx ends. problem is told what goes wrong.
func (s *Server) Run(ctx context.Context, client *http.Client, to Webhook, problem func(error)) {
	tell := func(err error) {
		if err != nil && ctx.Err() == nil {
			problem(err)
		}
	}
	renew := time.NewTimer(0)
	defer renew.Stop()
	for wait := retryFirst; ; {
		var again <-chan time.Time
		if err := s.deliver(ctx, client, to); err != nil {
			tell(err)
			again = time.After(wait)
			wait = min(2*wait, retryMax)
		} else {
			wait = retryFirst
		}
		select {
		case <-again:
		case <-s.happened:
		case <-renew.C:
			tell(s.change(s.renewDue))
			renew.Reset(renewEvery)
		case <-ctx.Done():
			return
		}
	}
}

// change does something to the record and keeps it.
func (s *Server) change(do func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	return s.keep()
}

// deliver sends what is not sent yet.
func (s *Server) deliver(ctx context.Context, client *http.Client, to Webhook) error {
	for {
		kind, body := s.oldest()
		if kind == "" {
			return nil
		}
		status, err := post(ctx, client, to, body, s.now())
		if err != nil {
			return fmt.Errorf("send %s to the webhook: %w", kind, err)
		}
		if status != http.StatusOK {
			return fmt.Errorf("send %s to the webhook: it answered %d", kind, status)
		}
		if err := s.change(func() { s.has.Unsent = s.has.Unsent[1:] }); err != nil {
			return err
		}
	}
}

// oldest is the event that is sent next; of no kind if there is none.
func (s *Server) oldest() (kind string, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.has.Unsent) == 0 {
		return "", nil
	}
	return s.has.Unsent[0].text("type"), encode(s.has.Unsent[0])
}

// post sends a signed event and gives the status of the answer.
func post(ctx context.Context, client *http.Client, to Webhook, body []byte, at time.Time) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Stripe-Signature", Sign(body, to.Secret, at))
	res, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}
