// Command retention is the program of docs/features/retention.md.
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
	const queue = "docs.go-receipts"
	settings := map[string]any{"retention": map[string]any{"cancelled": "36h"}}
	if err := client.API(ctx, http.MethodPut, "/queues/"+queue, settings, nil); err != nil {
		return err
	}
	job, err := client.EnqueueRaw(ctx, queue, nil)
	if err != nil {
		return err
	}
	if err := client.API(ctx, http.MethodPost, "/jobs/"+job.ID+"/cancel", nil, nil); err != nil {
		return err
	}
	var shown struct {
		FinishedAt    time.Time `json:"finished_at"`
		RetainedUntil time.Time `json:"retained_until"`
	}
	if err := client.API(ctx, http.MethodGet, "/jobs/"+job.ID, nil, &shown); err != nil {
		return err
	}
	fmt.Println("kept for", shown.RetainedUntil.Sub(shown.FinishedAt))
	return nil
}
