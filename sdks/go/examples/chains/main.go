// Command chains is the program of docs/features/chains.md.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

type Extract struct {
	Text string `json:"text"`
}

func (Extract) Kind() string { return "docs.go-extract" }

type Summarize struct {
	// What the step before returned. omitempty, because what a step's own payload says
	// wins over it.
	Words []string `json:"previous_result,omitempty"`
}

func (Summarize) Kind() string { return "docs.go-summarize" }

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
	if _, err := client.Enqueue(ctx, Extract{"jobs that follow"}, corvo.Then(corvo.NewJob(Summarize{}))); err != nil {
		return err
	}
	w := corvo.NewWorker(client, corvo.Queue("docs.go-extract", 1), corvo.Queue("docs.go-summarize", 1))
	corvo.Handle(w, func(_ context.Context, j *corvo.Job[Extract]) ([]string, error) {
		return strings.Fields(j.Args.Text), nil
	})
	corvo.Handle(w, func(_ context.Context, j *corvo.Job[Summarize]) (int, error) {
		fmt.Println("step", j.ChainStep, "has", len(j.Args.Words), "words")
		stop() // Run finishes what it holds.
		return len(j.Args.Words), nil
	})
	return w.Run(ctx)
}
