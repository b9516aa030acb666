// Command approvals is the program of docs/features/approvals.md.
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
	policy := map[string]any{"name": "large", "mode": "all", "queue": "docs.go-refunds", "tag_key": "size", "tag_value": "large"}
	if err := client.API(ctx, http.MethodPost, "/approval-policies", policy, nil); err != nil {
		return err
	}
	job, err := client.EnqueueRaw(ctx, "docs.go-refunds", nil, corvo.Tags(map[string]string{"size": "large"}))
	if err != nil {
		return err
	}
	before, err := client.Job(ctx, job.ID)
	if err != nil {
		return err
	}
	if err := client.Approve(ctx, job.ID); err != nil {
		return err
	}
	after, err := client.Job(ctx, job.ID)
	if err != nil {
		return err
	}
	fmt.Println(before.State, "then", after.State)
	return nil
}
