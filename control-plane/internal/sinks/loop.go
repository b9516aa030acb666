package sinks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	leaseFor = 30 * time.Second
	tick     = 2 * time.Second
	// sinksMax are sent to at a time, batchMax lines each, and batchesMax batches before the
	// next sink gets its turn.
	sinksMax   = 8
	dueMax     = 100
	batchMax   = 200
	batchesMax = 5
	// objectsEvery is how long entries are gathered for an object in S3.
	objectsEvery = time.Minute
	backoffMin   = time.Second
	backoffMax   = 5 * time.Minute
	problemMax   = 500
)

// Run sends until ctx ends. Of several processes, one does at a time.
func (s *Service) Run(ctx context.Context) { s.loop.Run(ctx) }

// Deliver sends what is due to every sink.
func (s *Service) Deliver(ctx context.Context) error { return s.loop.Pass(ctx) }

// pass sends it. A sink that fails is no error.
func (s *Service) pass(ctx context.Context, now time.Time) error {
	due, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) ([]store.AuditSink, error) { return tx.DueAuditSinks(ctx, now, dueMax) })
	if err != nil {
		return err
	}
	slots := make(chan struct{}, sinksMax)
	problems := make(chan error, len(due))
	var all sync.WaitGroup
	for _, sink := range due {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			problems <- s.serve(ctx, sink)
		})
	}
	all.Wait()
	close(problems)
	for p := range problems {
		err = errors.Join(err, p)
	}
	return err
}

// serve sends some batches to a sink and records how that went.
func (s *Service) serve(ctx context.Context, sink store.AuditSink) error {
	for range batchesMax {
		from := sink.Sent
		entries, err := s.next(ctx, sink)
		if err != nil || len(entries) == 0 {
			return err
		}
		if err := s.sendTo(ctx, sink, entries); err != nil {
			s.failed(&sink, err)
		} else {
			s.arrived(&sink, entries)
		}
		// What was sent is recorded though the time is up.
		noted := context.WithoutCancel(ctx)
		err = s.Store.Tenant(noted, sink.TenantID, func(tx *store.Tx) error { return tx.NoteAuditSink(noted, sink, from) })
		if errors.Is(err, store.ErrNotFound) {
			return nil // Somebody changed or deleted it.
		}
		if err != nil || sink.Attempts > 0 || len(entries) < batchMax || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// next are the entries after the last one that arrived. Those deleted at the end of their
// retention are passed over.
func (s *Service) next(ctx context.Context, sink store.AuditSink) ([]store.AuditEvent, error) {
	return store.Get(ctx, func(ctx context.Context, f func(*store.Tx) error) error {
		return s.Store.ReadTenant(ctx, sink.TenantID, f)
	},
		func(tx *store.Tx) ([]store.AuditEvent, error) {
			return tx.AuditFrom(ctx, sink.TenantID, sink.Sent+1, batchMax)
		})
}

func (s *Service) sendTo(ctx context.Context, sink store.AuditSink, entries []store.AuditEvent) error {
	t, secret, err := kept(s.Seal, sink)
	if err != nil {
		return err
	}
	first, last := entries[0].Seq, entries[len(entries)-1].Seq
	b := batch{
		id: fmt.Sprintf("%s_%d_%d", sink.ID, first, last), at: s.Now(),
		object: fmt.Sprintf("%s/%012d-%012d.ndjson", entries[0].At.UTC().Format("2006/01/02"), first, last),
	}
	for _, e := range entries {
		line, err := lineOf(sink, audit.Line(e))
		if err != nil {
			return err
		}
		b.lines, b.times = append(b.lines, line), append(b.times, e.At)
	}
	return s.sender.send(ctx, t, secret, b)
}

func lineOf(sink store.AuditSink, e auditlog.Entry) (string, error) {
	if sink.Format == int64(cloudv1.AuditFormat_AUDIT_FORMAT_OCSF) {
		return auditlog.Line(auditlog.OCSF(e))
	}
	return auditlog.Line(e)
}

func (s *Service) arrived(sink *store.AuditSink, entries []store.AuditEvent) {
	now := s.Now()
	sink.Sent, sink.SentAt, sink.DueAt = entries[len(entries)-1].Seq, now, now
	sink.Attempts, sink.FailingSince, sink.LastError = 0, time.Time{}, ""
	if t, _, err := kept(s.Seal, *sink); err == nil && t.S3 != nil && len(entries) < batchMax {
		sink.DueAt = now.Add(objectsEvery)
	}
}

func (s *Service) failed(sink *store.AuditSink, cause error) {
	now := s.Now()
	sink.Attempts++
	sink.LastError = clip(cause.Error())
	if sink.FailingSince.IsZero() {
		sink.FailingSince = now
	}
	wait := min(backoffMin<<min(sink.Attempts-1, 20), backoffMax)
	sink.DueAt = now.Add(wait/2 + rand.N(wait/2+1))
}

func clip(text string) string {
	if len(text) > problemMax {
		text = text[:problemMax]
	}
	return text
}
