// Command enqueue is the program of docs/features/enqueue.md.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

type Report struct {
	Month string `json:"month"`
}

func (Report) Kind() string  { return "report" }
func (Report) Queue() string { return "docs.go-reports" }

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
	first, err := client.Enqueue(ctx, Report{"2026-11"}, corvo.Priority(corvo.High), corvo.Delay(time.Hour),
		corvo.ExpireAfter(24*time.Hour), corvo.Unique("2026-11", 0), corvo.Tags(map[string]string{"customer": "acme"}))
	if err != nil {
		return err
	}
	again, err := client.Enqueue(ctx, Report{"2026-11"}, corvo.Unique("2026-11", 0))
	if err != nil {
		return err
	}
	fmt.Println(first.Status, again.Status, first.ID == again.ID)
	return nil
}
