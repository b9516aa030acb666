// Command batches is the program of docs/features/batches.md.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

type Resize struct {
	Image int `json:"image"`
}

func (Resize) Kind() string { return "docs.go-resize" }

type Album struct {
	Album     int `json:"album"`
	Total     int `json:"total,omitempty"` // The counts are filled in.
	Completed int `json:"completed,omitempty"`
}

func (Album) Kind() string { return "docs.go-album" }

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
	images := []*corvo.JobSpec{corvo.NewJob(Resize{1}), corvo.NewJob(Resize{2}), corvo.NewJob(Resize{3})}
	if _, err := client.EnqueueWithCallback(ctx, corvo.NewJob(Album{Album: 7}), images); err != nil {
		return err
	}
	w := corvo.NewWorker(client, corvo.Queue("docs.go-resize", 3), corvo.Queue("docs.go-album", 1))
	corvo.Handle(w, func(context.Context, *corvo.Job[Resize]) (any, error) { return nil, nil })
	corvo.Handle(w, func(_ context.Context, j *corvo.Job[Album]) (any, error) {
		fmt.Println("album", j.Args.Album, "has", j.Args.Completed, "of", j.Args.Total)
		stop() // Run finishes what it holds.
		return nil, nil
	})
	return w.Run(ctx)
}
