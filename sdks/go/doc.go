// Package corvo is the Go client and worker runtime of Corvo.
//
// A producer enqueues typed arguments:
//
//	client, err := corvo.New() // CORVO_URL, CORVO_API_KEY, CORVO_NAMESPACE
//	job, err := client.Enqueue(ctx, SendEmail{To: "a@b.example"}, corvo.Delay(time.Minute))
//
// A worker handles them until its context ends, then drains:
//
//	w := corvo.NewWorker(client, corvo.Queue("email.send", 20))
//	corvo.Handle(w, func(ctx context.Context, j *corvo.Job[SendEmail]) (Receipt, error) {
//		return send(ctx, j.Args)
//	})
//	err = w.Run(ctx)
//
// # Kinds and queues
//
// A kind names what a job is, a queue says where it waits. They are the same
// word unless the producer says otherwise (ToQueue, or a Queue method on the
// arguments); then the kind travels in the tag "corvo.kind". A job whose kind
// has no handler is given back, never acknowledged.
//
// # What is promised
//
// Enqueue returns when the job is on disk on a quorum. Every call that changes
// something carries an idempotency key or is safe to repeat before it is
// repeated. A handler runs at least once; an attempt counts as done only when
// the server has confirmed it, and a worker that lost its lease cannot finish
// somebody else's attempt.
//
// The package depends on net/http and connect-go alone, has no globals and logs
// nothing below warnings unless given a logger.
//
// Surprising fact: one worker, whatever its number of slots, uses one HTTP/2
// stream, and settles with one frame at a time; what finishes while a frame is on
// its way shares the next one.
package corvo
