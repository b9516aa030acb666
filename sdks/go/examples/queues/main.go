// Command queues is the program of docs/features/queues.md.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

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
	const queue = "docs.go-mails"
	settings := map[string]any{"max_concurrency": 10, "throttle": map[string]any{"limit": 100, "window_ms": 60_000}, "max_retries": 7}
	if err := client.API(ctx, http.MethodPut, "/queues/"+queue, settings, nil); err != nil {
		return err
	}
	job, err := client.EnqueueRaw(ctx, queue, nil)
	if err != nil {
		return err
	}
	info, err := client.Job(ctx, job.ID)
	if err != nil {
		return err
	}
	var cleared struct{ Removed int }
	if err := client.API(ctx, http.MethodPost, "/queues/"+queue+"/clear", nil, &cleared); err != nil {
		return err
	}
	fmt.Println("attempts:", info.MaxRetries, "removed:", cleared.Removed)
	return nil
}
