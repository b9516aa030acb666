package mixed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

const (
	largeBytes = 250 << 10 // Of a body. As many as largeBurst are more than a fetch is granted, and just fit into a call.
	largeBurst = 15
	largePace  = 15 * time.Second

	fetchWait    = 10 * time.Second
	patience     = 20 * time.Second // Of a call that waits.
	givesUpEvery = 5                // Of so many that wait, one leaves early.

	readEvery = 4 * time.Second // Between the calls of a client that stops reading.
	readPause = 7 * time.Second // Longer than the lease of a job in the answer.
	readFirst = 512             // Bytes, before the pause.
	readMax   = 64 << 20
)

// largeJob has a payload that is hard to compress, and tells its own digest.
type largeJob struct {
	Word string `json:"word"`
	Sum  string `json:"sum"`
	Body string `json:"body"`
}

func sum(body string) string {
	digest := sha256.Sum256([]byte(body))
	return hex.EncodeToString(digest[:])
}

// Heavy is what takes a service's memory rather than its time, until stop is closed: large jobs, waiting fetches, as many
// as given, and a client that stops reading. What is made and read comes through c, and the rest through connections of next.
func (l *Load) Heavy(c *corvo.Client, next func() http.RoundTripper, waiting int, stop <-chan struct{}) {
	var all sync.WaitGroup
	all.Go(func() { l.produceLarge(c, stop) })
	all.Go(func() { l.waitInLine(next(), waiting, stop) })
	all.Go(func() { l.readLate(next(), stop) })
	all.Wait()
}

func (l *Load) produceLarge(c *corvo.Client, stop <-chan struct{}) {
	rng := rand.New(rand.NewPCG(1, 1))
	for {
		var items []item
		for range largeBurst {
			items = append(items, l.item(large, func(int) string { return l.largePayload(rng) }))
		}
		l.judge("enqueue of large jobs", l.add(c, items...))
		if !sleep(largePace, stop) {
			return
		}
	}
}

func (l *Load) largePayload(rng *rand.Rand) string {
	body := make([]byte, largeBytes/2)
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	text := hex.EncodeToString(body)
	return fmt.Sprintf(`{"word":%q,"sum":%q,"body":%q}`, l.Word, sum(text), text)
}

// whole is the digest of a large job whose payload is all that was sent.
func (l *Load) whole(payload json.RawMessage) (string, error) {
	var job largeJob
	if err := json.Unmarshal(payload, &job); err != nil {
		return "", fmt.Errorf("%d bytes: %w", len(payload), err)
	}
	if len(job.Body) != largeBytes || job.Word != l.Word || job.Sum != sum(job.Body) {
		return "", fmt.Errorf("of %q, %d bytes with the digest %s instead of %s", job.Word, len(job.Body), sum(job.Body), job.Sum)
	}
	return job.Sum, nil
}

// waitInLine has count clients wait for a rare job through next until stop is closed, most of them in vain. Some leave
// while they wait.
func (l *Load) waitInLine(next http.RoundTripper, count int, stop <-chan struct{}) {
	c := &http.Client{Transport: next}
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			for turn := 0; ; turn++ {
				waits := patience
				if i%givesUpEvery == 0 {
					waits = time.Duration(1+(i+turn)%7) * time.Second
				}
				begun := time.Now()
				jobs := l.fetch(c, rare, waits, stop)
				for _, j := range jobs {
					l.settle(c, j)
				}
				l.meet(Met{Waited: len(jobs)})
				if !sleep(max(time.Millisecond, pace-time.Since(begun)), stop) {
					return
				}
			}
		})
	}
	all.Wait()
}

// fetch is one job, or none.
func (l *Load) fetch(c *http.Client, queue string, waits time.Duration, stop <-chan struct{}) []wire.FetchedJob {
	ctx, cancel := until(stop, waits)
	defer cancel()
	asked := time.Now()
	res, err := l.ask(ctx, c, http.MethodPost, "/fetch/batch", wire.FetchRequest{Queues: []string{queue}, WorkerID: l.Word + "-" + queue, Count: 1, Lease: "5s", Wait: fetchWait.String()})
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	var jobs wire.FetchedJobs
	if json.NewDecoder(io.LimitReader(res.Body, readMax)).Decode(&jobs) != nil {
		return nil
	}
	l.handedOut(jobs.Jobs, asked)
	return jobs.Jobs
}

func (l *Load) handedOut(jobs []wire.FetchedJob, asked time.Time) {
	for _, j := range jobs {
		l.history.HandOut(j.JobID, j.LeaseToken, j.Attempt, asked)
	}
}

// settle completes a job, if its lease goes on. Of what is not confirmed, the record says what became of it.
func (l *Load) settle(c *http.Client, j wire.FetchedJob) {
	l.history.Handled(j.JobID, j.Attempt)
	ack := wire.AckRequest{LeaseToken: j.LeaseToken, Result: l.answer(j.JobID, j.Queue, j.Attempt, j.Payload)}
	if l.call(c, http.MethodPost, "/ack/"+j.JobID, ack, nil) == nil {
		l.history.Confirm(j.JobID, j.LeaseToken, time.Now())
		l.meet(Met{Settled: 1})
	}
}

// readLate asks for megabytes through next, and stops reading once they come, until stop is closed. Of what it reads in
// the end, every job must be whole.
func (l *Load) readLate(next http.RoundTripper, stop <-chan struct{}) {
	c := &http.Client{Transport: next}
	for turn := 0; sleep(readEvery, stop); turn++ {
		switch turn % 3 {
		case 0:
			_, _ = l.late(c, stop, false, http.MethodGet, "/jobs/export?queue="+large, nil) // It leaves.
		case 1:
			if all, err := l.late(c, stop, true, http.MethodGet, "/jobs/export?queue="+large, nil); err == nil {
				l.checkPage(all)
			}
		case 2:
			asked := time.Now()
			if all, err := l.late(c, stop, true, http.MethodPost, "/fetch/batch", wire.FetchRequest{Queues: []string{large}, WorkerID: l.Word + "-late", Count: largeBurst, Lease: "10s", Wait: "1s"}); err == nil {
				l.settleLate(c, all, asked)
			}
		}
	}
}

func (l *Load) checkPage(all []byte) {
	var page wire.ExportPage
	if err := json.Unmarshal(all, &page); err != nil {
		l.wrong("INV-1: a page that was read to its end, of %d bytes: %v", len(all), err)
	}
	for _, j := range page.Jobs {
		if _, err := l.whole(j.Payload); err != nil {
			l.wrong("INV-1: a page shows %s with another payload: %v", j.ID, err)
		}
	}
	l.meet(Met{Late: len(page.Jobs)})
}

func (l *Load) settleLate(c *http.Client, all []byte, asked time.Time) {
	var jobs wire.FetchedJobs
	if err := json.Unmarshal(all, &jobs); err != nil {
		l.wrong("INV-1: jobs that were read to their end, of %d bytes: %v", len(all), err)
	}
	l.handedOut(jobs.Jobs, asked)
	for _, j := range jobs.Jobs {
		l.settle(c, j)
	}
	l.meet(Met{Late: len(jobs.Jobs)})
}

// late is what a call answers to a client that stops reading after its beginning, and then reads the rest, or leaves.
func (l *Load) late(c *http.Client, stop <-chan struct{}, rest bool, method, path string, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	res, err := l.ask(ctx, c, method, path, body)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	first := make([]byte, readFirst)
	n, err := res.Body.Read(first)
	if n == 0 {
		return nil, err
	}
	if sleep(readPause, stop); !rest {
		return nil, errLeft
	}
	more, err := io.ReadAll(io.LimitReader(res.Body, readMax))
	return append(first[:n], more...), err
}

var errLeft = errors.New("the client left")

// sleep is false if stop was closed first.
func sleep(d time.Duration, stop <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-stop:
		return false
	case <-t.C:
		return true
	}
}

// until ends with stop, or after d.
func until(stop <-chan struct{}, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}
