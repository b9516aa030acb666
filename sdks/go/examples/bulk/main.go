// Command bulk is the program of docs/features/bulk.md.
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
	const queue = "docs.go-bulk"
	for range 3 {
		if _, err := client.EnqueueRaw(ctx, queue, nil); err != nil {
			return err
		}
	}
	var done struct{ Affected, Errors int }
	call := map[string]any{"action": "cancel", "filter": map[string]any{"queue": queue, "state": []string{"pending"}}}
	if err := client.API(ctx, http.MethodPost, "/jobs/bulk", call, &done); err != nil {
		return err
	}
	fmt.Printf("%d cancelled, %d left\n", done.Affected, done.Errors)
	return nil
}
