package corvo_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// SendEmail is what the producer knows and the handler gets.
type SendEmail struct {
	To string `json:"to"`
}

// Kind names the job type and, unless told otherwise, its queue.
func (SendEmail) Kind() string { return "email.send" }

// Receipt becomes the job's result.
type Receipt struct {
	MessageID string `json:"message_id"`
}

func deliver(context.Context, string) (string, error) { return "m-1", nil }

// A producer.
func Example_producer() {
	ctx := context.Background()
	client, err := corvo.New() // CORVO_URL, CORVO_API_KEY, CORVO_NAMESPACE
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	job, err := client.Enqueue(ctx, SendEmail{To: "ada@example.com"},
		corvo.Delay(time.Minute), corvo.Unique("welcome:ada@example.com", time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.ID, job.Status)
}

// A worker that drains on SIGTERM.
func Example_worker() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	client, err := corvo.New()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	w := corvo.NewWorker(client, corvo.Queue("email.send", 20))
	corvo.Handle(w, func(ctx context.Context, j *corvo.Job[SendEmail]) (Receipt, error) {
		id, err := deliver(ctx, j.Args.To)
		return Receipt{MessageID: id}, err
	})
	if err := w.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// ImportFile is a long job that can continue where an earlier attempt stopped.
type ImportFile struct {
	Path string `json:"path"`
	Rows int    `json:"rows"`
}

// Kind names the job type.
func (ImportFile) Kind() string { return "file.import" }

// A long job with progress and checkpoints.
func ExampleJob_Checkpoint() {
	w := corvo.NewWorker(mustClient(), corvo.Queue("file.import", 2))
	corvo.Handle(w, func(ctx context.Context, j *corvo.Job[ImportFile]) (any, error) {
		var row int
		if _, err := j.LoadCheckpoint(&row); err != nil {
			return nil, err
		}
		for ; row < j.Args.Rows; row++ {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx) // Cancelled, lease lost, or shutting down.
			}
			if row%1000 == 0 {
				if err := j.Checkpoint(ctx, row); err != nil {
					return nil, err
				}
			}
			if err := j.Progress(ctx, map[string]int{"row": row, "of": j.Args.Rows}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
}

// Errors say what to do.
func ExampleError() {
	_, err := mustClient().Enqueue(context.Background(), SendEmail{})
	var e *corvo.Error
	switch {
	case errors.Is(err, corvo.ErrUnauthorized):
		fmt.Println("check CORVO_API_KEY")
	case errors.As(err, &e) && e.Retryable:
		fmt.Println("try again after", e.RetryAfter, "and quote", e.RequestID)
	case err != nil:
		fmt.Println(err)
	}
}

func mustClient() *corvo.Client {
	c, err := corvo.New()
	if err != nil {
		log.Fatal(err)
	}
	return c
}
