// Command dependencies is the program of docs/features/dependencies.md.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

type Part struct {
	Name string `json:"name"`
}

func (Part) Kind() string { return "docs.go-part" }

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
	parts, err := client.EnqueueBatch(ctx, []*corvo.JobSpec{corvo.NewJob(Part{"left"}), corvo.NewJob(Part{"right"})})
	if err != nil {
		return err
	}
	whole, err := client.Enqueue(ctx, Part{"whole"}, corvo.DependsOn(corvo.DependencyFail, parts[0].ID, parts[1].ID))
	if err != nil {
		return err
	}
	info, err := client.Job(ctx, whole.ID)
	if err != nil {
		return err
	}
	fmt.Println("waits for", info.WaitingOn)
	w := corvo.NewWorker(client, corvo.Queue("docs.go-part", 3))
	corvo.Handle(w, func(_ context.Context, j *corvo.Job[Part]) (any, error) {
		if j.Args.Name == "whole" {
			fmt.Println("the whole comes last")
			stop() // Run finishes what it holds.
		}
		return nil, nil
	})
	return w.Run(ctx)
}
