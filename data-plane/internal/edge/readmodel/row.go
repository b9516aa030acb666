package readmodel

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/codec"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// errorBytesMax is how much a list shows of a job's last error and hold reason.
const errorBytesMax = 512

// Row is a job as lists show it: no payload, no result. Times are Unix
// nanoseconds, 0 for never.
type Row struct {
	ID          job.ID
	Queue       string
	State       job.State
	Priority    job.Priority
	Attempt     uint32
	MaxRetries  uint32
	Crashes     uint32
	CreatedAt   int64
	ScheduledAt int64 // Of the next attempt while it waits for one, else as asked.
	StartedAt   int64
	FinishedAt  int64 // Completed, dead or cancelled.
	FailedAt    int64
	Worker      string
	LastError   string
	HoldReason  string // While it is held.
	Reason      records.DeadReason
	Tags        []command.Tag
	// generation is that of the job's queue; rows of a deleted queue are not shown.
	generation uint64
}

func (r *Row) position() Position { return Position{r.CreatedAt, r.ID} }

// cause is that of a dead job.
func (r *Row) cause() Cause { return causeOf(r.Queue, r.LastError, r.Reason) }

// rowFrom makes a job's row; last error and hold reason are read from the state.
func rowFrom(store *statedb.Group, ns job.Namespace, id job.ID, h *records.Head, b *records.Body) (Row, error) {
	r := Row{
		ID: id, Queue: h.Queue, State: h.State, Priority: h.Priority, Attempt: h.Attempt,
		MaxRetries: h.Retry.MaxRetries, Crashes: h.Crashes, CreatedAt: b.CreatedAt, ScheduledAt: b.ScheduledAt,
		StartedAt: h.Started, FinishedAt: h.Finished, FailedAt: h.FailedAt, Worker: h.Worker, Reason: h.Reason, Tags: b.Tags,
		generation: h.Gen,
	}
	if h.State == job.Scheduled || h.State == job.Retrying {
		r.ScheduledAt = h.DueAt()
	}
	var err error
	if r.LastError, err = lastError(store, ns, id, h); err != nil {
		return Row{}, err
	}
	if h.State == job.Held {
		hold, err := stateread.ReadHold(store, ns, id)
		if err != nil {
			return Row{}, err
		}
		r.HoldReason = cut(hold.Cause.String())
	}
	return r, nil
}

// lastError is what a list shows of a job's last error.
func lastError(store *statedb.Group, ns job.Namespace, id job.ID, h *records.Head) (string, error) {
	if !h.Has(records.FlagErrors) {
		return "", nil
	}
	e, err := stateread.ReadLastError(store, ns, id)
	if err != nil {
		return "", fmt.Errorf("errors of job %s: %w", id, err)
	}
	return cut(e.Text()), nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is a checksum over every column of the row: SQLite has none, and a flipped bit in a
// column without an index would be shown.
func (r *Row) sum(tags []byte) int64 {
	b := make([]byte, 0, 256)
	b = append(b, r.ID[:]...)
	for _, text := range []string{r.Queue, r.Worker, r.LastError, r.HoldReason, string(tags)} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	for _, n := range []uint64{
		uint64(r.State), uint64(r.Priority), uint64(r.Attempt), uint64(r.MaxRetries), uint64(r.Crashes), uint64(r.CreatedAt), uint64(r.ScheduledAt),
		uint64(r.StartedAt), uint64(r.FinishedAt), uint64(r.FailedAt), uint64(r.Reason), r.generation,
	} {
		b = binary.AppendUvarint(b, n)
	}
	return int64(crc32.Checksum(b, castagnoli))
}

func cut(s string) string { return cutTo(s, errorBytesMax) }

// cutTo shortens a text without breaking a character.
func cutTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > 0 && s[end]&0xc0 == 0x80 {
		end--
	}
	return s[:end]
}

func encodeTags(tags []command.Tag) []byte {
	if len(tags) == 0 {
		return nil
	}
	f := codec.Writing(codec.Writer{})
	command.Tags(&f, &tags)
	return f.Written()
}

func decodeTags(b []byte) ([]command.Tag, error) {
	if len(b) == 0 {
		return nil, nil
	}
	f := codec.Reading(b)
	var tags []command.Tag
	command.Tags(&f, &tags)
	return tags, f.Reader().Close()
}
