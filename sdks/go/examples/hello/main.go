// Command hello is the program of docs/quickstart.md: it enqueues one job and
// works on the queue until it is interrupted. A test keeps the page and this file
// equal.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

type Hello struct {
	Name string `json:"name"`
}

// Kind says what a job is; without a Queue method it is also its queue.
func (Hello) Kind() string { return "hello" }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("stopped", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	client, err := corvo.New() // CORVO_URL, CORVO_API_KEY
	if err != nil {
		return err
	}
	if _, err := client.Enqueue(ctx, Hello{Name: "Ada"}); err != nil {
		return err
	}
	w := corvo.NewWorker(client, corvo.Queue("hello", 10))
	corvo.Handle(w, func(ctx context.Context, j *corvo.Job[Hello]) (string, error) {
		fmt.Println("hello", j.Args.Name)
		return "said hello", nil
	})
	return w.Run(ctx) // Ctrl-C: finishes what it holds, then returns.
}
