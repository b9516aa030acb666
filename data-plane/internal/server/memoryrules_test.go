package server

import (
	"context"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// act puts a job of the fake into a state without asking which it is in.
func (m *memory) act(c queue.Caller, id job.ID, to job.State) (job.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, err := m.find(c, id)
	if err != nil {
		return 0, err
	}
	m.calls++
	j.State = to
	return to, nil
}

func (m *memory) Audit(context.Context, queue.Caller, uint64, int) (queue.AuditPage, error) {
	return queue.AuditPage{}, nil
}

func (m *memory) DrainQueue(_ context.Context, _ queue.Caller, _ string, _ time.Duration) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	return 0, nil
}

func (m *memory) ClearQueue(_ context.Context, _ queue.Caller, _ string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	return 0, nil
}

func (m *memory) RequeueDead(ctx context.Context, c queue.Caller, name string) (int64, error) {
	return m.ClearQueue(ctx, c, name)
}

func (m *memory) MoveJob(_ context.Context, c queue.Caller, id job.ID, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	j, err := m.find(c, id)
	if err != nil {
		return err
	}
	m.calls++
	j.Queue = to
	return nil
}

func (m *memory) Hold(_ context.Context, c queue.Caller, id job.ID, _ string) (job.State, error) {
	return m.act(c, id, job.Held)
}

func (m *memory) Approve(_ context.Context, c queue.Caller, id job.ID, _ string) (job.State, error) {
	return m.act(c, id, job.Pending)
}

func (m *memory) Reject(_ context.Context, c queue.Caller, id job.ID, _ string) (job.State, error) {
	return m.act(c, id, job.Dead)
}
