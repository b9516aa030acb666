// Command retries is the program of docs/features/retries.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

type Charge struct {
	Card string `json:"card"`
}

func (Charge) Kind() string  { return "charge" }
func (Charge) Queue() string { return "docs.go-charges" }

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client, err := corvo.New() // CORVO_URL, CORVO_API_KEY
	if err != nil {
		return err
	}
	job, err := client.Enqueue(ctx, Charge{"4242"}, corvo.MaxRetries(5), corvo.Backoff(corvo.BackoffLinear, time.Second, time.Minute))
	if err != nil {
		return err
	}
	w := corvo.NewWorker(client, corvo.Queue("docs.go-charges", 1))
	corvo.Handle(w, func(_ context.Context, j *corvo.Job[Charge]) (any, error) {
		if j.Attempt == 1 {
			return nil, corvo.RetryIn(100*time.Millisecond, errors.New("the bank is busy"))
		}
		stop() // One job is enough here: Run finishes what it holds.
		return nil, corvo.Terminal(errors.New("the card is stolen"))
	})
	if err := w.Run(ctx); err != nil {
		return err
	}
	info, err := client.Job(context.Background(), job.ID)
	if err != nil {
		return err
	}
	fmt.Println(info.State, info.DeadReason, "after", info.Attempt, "of", info.MaxRetries)
	return nil
}
