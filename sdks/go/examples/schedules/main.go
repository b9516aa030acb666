// Command schedules is the program of docs/features/schedules.md.
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
	var schedule struct {
		ID       string      `json:"id"`
		NextRuns []time.Time `json:"next_runs"`
	}
	err = client.API(ctx, http.MethodPost, "/schedules", map[string]any{
		"name": "go-nightly", "cron": "30 2 * * *", "timezone": "Europe/Berlin", "queue": "docs.go-nightly", "overlap": "skip",
	}, &schedule)
	if err != nil {
		return err
	}
	var run struct {
		JobID string `json:"job_id"`
	}
	if err := client.API(ctx, http.MethodPost, "/schedules/"+schedule.ID+"/run", nil, &run); err != nil {
		return err
	}
	job, err := client.Job(ctx, run.JobID)
	if err != nil {
		return err
	}
	fmt.Println(len(schedule.NextRuns), "runs known; the one by hand is", job.State)
	return client.API(ctx, http.MethodDelete, "/schedules/"+schedule.ID, nil, nil)
}
