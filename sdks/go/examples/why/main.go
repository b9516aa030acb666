// Command why is the program of docs/features/why.md.
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
	job, err := client.EnqueueRaw(ctx, "docs.go-why", nil, corvo.Delay(time.Hour))
	if err != nil {
		return err
	}
	if err := client.Pause(ctx, "docs.go-why"); err != nil {
		return err
	}
	var why struct {
		Reasons []struct{ Code, Message string }
	}
	if err := client.API(ctx, http.MethodGet, "/jobs/"+job.ID+"/why", nil, &why); err != nil {
		return err
	}
	for _, r := range why.Reasons {
		fmt.Println(r.Code)
	}
	return nil
}
