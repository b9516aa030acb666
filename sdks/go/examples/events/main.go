// Command events is the program of docs/features/events.md.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, os.Getenv("CORVO_URL")+"/api/v1/events?queues=docs.go-events", http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", os.Getenv("CORVO_API_KEY"))
	resp, err := http.DefaultClient.Do(req) // Answered once the stream is open: nothing is missed from here on.
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	client, err := corvo.New() // CORVO_URL, CORVO_API_KEY
	if err != nil {
		return err
	}
	if _, err := client.EnqueueRaw(ctx, "docs.go-events", nil); err != nil {
		return err
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			fmt.Println(name)
			return nil
		}
	}
	return nil
}
