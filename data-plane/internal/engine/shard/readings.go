package shard

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/floor/statedb"
)

// readingsSettle is how far behind the leader's time readings are complete. A leader's
// clock is at most 5 s off (R-T2), and so is the next one's; the rest is for an entry
// whose time was taken and that is not proposed yet.
const readingsSettle = 30 * time.Second

// Readings is what was counted for billing.
type Readings struct {
	List []stateread.Reading
	// Complete, in calendar time: nothing will be added to hours that ended by then.
	Complete int64
	// Seq is the index after which to ask next time.
	Seq uint64
	// Next is where the next page begins; nil if there is none.
	Next []byte
}

// Readings reads a page of what was counted. All pages of a list are complete up to the
// same time, that of the first.
func (s *Shard) Readings(ctx context.Context, from stateread.ReadingsFrom) (Readings, error) {
	page, err := s.beginReadings(&from)
	if err != nil {
		return Readings{}, err
	}
	found, err := Read(ctx, s, func(g *statedb.Group) (stateread.ReadingsPage, error) {
		return stateread.ReadReadings(g, from, page.Complete)
	})
	switch {
	case errors.Is(err, stateread.ErrPlace):
		return Readings{}, errNoPlace()
	case err != nil:
		return Readings{}, err
	}
	if page.List = found.List; found.Next != nil {
		page.Next = page.cursor(found.Next)
	}
	return page, nil
}

// beginReadings says up to when readings are complete: first the time, then everything
// proposed before it is applied, and only then is anything read.
func (s *Shard) beginReadings(from *stateread.ReadingsFrom) (page Readings, err error) {
	if !s.group.Leading() {
		return page, errNotLeader()
	}
	if from.Next != nil {
		page, from.Next, err = readingsAt(from.Next)
		return page, err
	}
	page.Complete = max(s.group.Now().Calendar-int64(readingsSettle), 0)
	if err := s.group.CatchUp(); err != nil {
		return page, err
	}
	page.Seq = s.group.AppliedIndex()
	return page, nil
}

// cursor is what a page ends with: what its list goes by, and a place in the state.
func (p *Readings) cursor(place []byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(p.Complete))
	return append(binary.BigEndian.AppendUint64(b, p.Seq), place...)
}

func readingsAt(cursor []byte) (p Readings, place []byte, err error) {
	if len(cursor) <= 16 {
		return p, nil, errNoPlace()
	}
	p.Complete, p.Seq = int64(binary.BigEndian.Uint64(cursor)), binary.BigEndian.Uint64(cursor[8:])
	return p, cursor[16:], nil
}

func errNoPlace() error {
	return fault.InvalidFields([]fault.Field{{Path: "next", Message: "isn't where a page ended"}})
}

// trimReadings removes readings that are kept no longer, as one more caller of the shard,
// for the time of a term.
func (s *Shard) trimReadings(ctx context.Context) {
	var from job.Namespace
	for ctx.Err() == nil {
		next, err := s.trimSomeReadings(ctx, from)
		if err != nil && ctx.Err() == nil {
			s.logger.Info("deleting old readings was held up; it goes on in a moment", "err", err)
		}
		from = next
		pause(ctx, s.opts.RetentionEvery)
	}
}

// trimSomeReadings looks at some namespaces, and says with which to go on.
func (s *Shard) trimSomeReadings(ctx context.Context, from job.Namespace) (next job.Namespace, err error) {
	if s.group.Version() < cellversion.Metering {
		return from, nil
	}
	c, next, err := stateread.OldReadings(s.store, s.group.Now().Calendar, from)
	if err == nil && c != nil {
		err = s.settle(ctx, c)
	}
	return next, err
}
