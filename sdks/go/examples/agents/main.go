// Command agents is the program of docs/features/agents.md.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

type Research struct {
	Question string `json:"question"`
}

func (Research) Kind() string { return "docs.go-research" }

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
	if _, err := client.Enqueue(ctx, Research{"why?"}, corvo.Agent(corvo.AgentLimits{MaxIterations: 5, MaxCostUSD: 1})); err != nil {
		return err
	}
	w := corvo.NewWorker(client, corvo.Queue("docs.go-research", 1))
	corvo.Handle(w, func(_ context.Context, j *corvo.Job[Research]) (string, error) {
		var notes []string // What the iterations before found.
		if _, err := j.LoadCheckpoint(&notes); err != nil {
			return "", err
		}
		j.Usage(corvo.Usage{Provider: "acme", Model: "small", Input: 1200, Output: 80, CostUSD: 0.002})
		if j.Iteration < 3 {
			return "", corvo.Continue(append(notes, fmt.Sprint("note ", j.Iteration)))
		}
		fmt.Println("iteration", j.Iteration, "has", notes)
		stop() // Run finishes what it holds.
		return "because", nil
	})
	return w.Run(ctx)
}
