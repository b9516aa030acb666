package state

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/records"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// actRows is what an audit of the state finds of the audit log: every record is found by
// its namespace, numbers have no gaps, and the bytes are what is counted.
type actRows struct {
	mark    records.AuditEnds
	records map[uint64]records.AuditRecord
	sizes   map[uint64]int
	of      map[job.Namespace]map[uint64]uint64
	books   map[job.Namespace]records.AuditEnds
	open    map[keys.Due]int64
}

func (r *actRows) row(space keys.Space, k, v []byte) (err error) {
	if k[4] == 0x3d {
		r.mark, err = records.DecodeAuditEnds(v)
		return err
	}
	n, err := space.AuditNumber(k)
	if err != nil {
		return err
	}
	if r.records == nil {
		r.records, r.sizes = map[uint64]records.AuditRecord{}, map[uint64]int{}
	}
	r.records[n], err = records.DecodeAudit(n, v)
	r.sizes[n] = len(v)
	return err
}

func (r *actRows) namespaceRow(ns job.Namespace, family byte, k, v []byte) (err error) {
	if r.of == nil {
		r.of, r.books, r.open = map[job.Namespace]map[uint64]uint64{}, map[job.Namespace]records.AuditEnds{}, map[keys.Due]int64{}
	}
	switch family {
	case 'B':
		r.books[ns], err = records.DecodeAuditEnds(v)
	case 'O':
		r.open[keys.Due{NS: ns, ID: job.ID(k[22:38])}] = 0
	default:
		if r.of[ns] == nil {
			r.of[ns] = map[uint64]uint64{}
		}
		var at uint64
		for _, b := range k[22:] {
			at = at<<8 | uint64(b)
		}
		r.of[ns][at], err = records.DecodeNumber(v)
	}
	return err
}

func (r *actRows) audit(a *auditor) {
	found, bytesOfAll := 0, uint64(0)
	for ns, book := range r.books {
		var size uint64
		for n := book.First; n != 0 && n <= book.Last; n++ {
			at, ok := r.of[ns][n]
			if rec := r.records[at]; !ok || rec.NS != ns || rec.Of != n {
				a.t.Fatalf("audit record %d of %s, which has %+v, is %+v", n, ns, book, rec)
			}
			size += uint64(r.sizes[at])
			found++
		}
		if size != book.Bytes || len(r.of[ns]) > int(book.Last-book.First)+1 {
			a.t.Fatalf("%s counts %+v, its %d records have %d bytes", ns, book, len(r.of[ns]), size)
		}
		bytesOfAll += size
	}
	if found != len(r.records) || bytesOfAll != r.mark.Bytes {
		a.t.Fatalf("%d of %d audit records belong to somebody, of %d bytes; the group counts %+v", found, len(r.records), bytesOfAll, r.mark)
	}
	for d := range a.due {
		if d.Kind != keys.DueAudit {
			continue
		}
		delete(r.open, keys.Due{NS: d.NS, ID: d.ID})
		delete(a.due, d)
	}
	if len(r.open) > 0 {
		a.t.Fatalf("acts that are never recorded: %v", r.open)
	}
}

func auditNS(n byte) job.Namespace { return job.Namespace{0xaa, n} }

func pauseAct(ns job.Namespace, by string) []command.Command {
	return []command.Command{
		&command.Audit{NS: ns, By: by, Peer: "192.0.2.1", Act: "queue.pause", Type: "queue", Target: "q", Covers: 1},
		&command.Pause{NS: ns, Queue: "q", Paused: true},
	}
}

func auditOf(t *testing.T, r *replica, after uint64) stateread.AuditPage {
	t.Helper()
	p, err := stateread.ReadAudit(r.store, after, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAudit_AnActIsRecordedByTheEntryThatDoesIt(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	ns, other, id := auditNS(1), auditNS(2), job.ID{1}
	r.do(t, epoch, &command.Enqueue{NS: ns, ID: id, Queue: "q", Retry: command.DefaultRetry()})
	r.apply(t, logEntry{now: epoch + 5, cmds: append(pauseAct(ns, "key_a"), pauseAct(other, "usr_b")...)})
	// A refused action is not recorded; what follows from an action is not counted.
	r.apply(t, logEntry{now: epoch + 6, cmds: []command.Command{
		&command.Audit{NS: ns, By: "key_a", Act: "job.retry", Type: "job", Target: "x", Covers: 1}, &command.Retry{NS: ns, ID: job.ID{9}},
		&command.Audit{NS: ns, By: "key_a", Act: "job.cancel", Type: "job", Target: id.String(), Covers: 1}, &command.Cancel{NS: ns, ID: id},
		&command.Enqueue{NS: ns, ID: job.ID{2}, Queue: "q", Retry: command.DefaultRetry()},
	}})
	r.audit(t)
	p := auditOf(t, r, 0)
	var got []string
	for _, rec := range p.Records {
		got = append(got, fmt.Sprintf("%d/%d %x %s %s %s %d %d", rec.Number, rec.Of, rec.NS[1], rec.By, rec.Act, rec.Target, rec.Affected, rec.At-epoch))
	}
	want := []string{"1/1 1 key_a queue.pause q 1 5", "2/1 2 usr_b queue.pause q 1 5", "3/2 1 key_a job.cancel " + id.String() + " 1 6"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || p.Last != 3 {
		t.Errorf("recorded, up to %d,\n%s\nwant\n%s", p.Last, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	mine, err := stateread.ReadAuditOf(r.store, other, 0, 10)
	if err != nil || len(mine) != 1 || mine[0].By != "usr_b" {
		t.Errorf("the other namespace sees %+v, %v", mine, err)
	}
	if rest := auditOf(t, r, 2); len(rest.Records) != 1 || rest.Records[0].Number != 3 {
		t.Errorf("behind 2 there is %+v", rest.Records)
	}
}

// A bulk operation is one record, even if the node that runs it dies.
func TestAudit_AnActInPartsIsOneRecord(t *testing.T) {
	t.Parallel()
	ns, op := auditNS(1), job.ID{7}
	part := func(done bool, ids ...byte) []command.Command {
		c := &command.Audit{NS: ns, By: "key_a", Act: "jobs.cancel", Type: "jobs", Covers: uint32(len(ids)), Op: op, Done: done}
		out := []command.Command{c}
		for _, id := range ids {
			out = append(out, &command.Cancel{NS: ns, ID: job.ID{id}})
		}
		return out
	}
	start := func(t *testing.T) *replica {
		r := newReplica(t)
		for id := range byte(4) {
			r.do(t, epoch, &command.Enqueue{NS: ns, ID: job.ID{id + 1}, Queue: "q", Retry: command.DefaultRetry()})
		}
		r.apply(t, logEntry{now: epoch + 1000, cmds: part(false, 1, 2, 99)})
		r.apply(t, logEntry{now: epoch + 2000, cmds: part(false, 3)})
		r.audit(t)
		if p := auditOf(t, r, 0); len(p.Records) != 0 {
			t.Fatalf("recorded before it was done: %+v", p.Records)
		}
		return r
	}
	fire := func(t *testing.T, r *replica, at int64) {
		t.Helper()
		r.do(t, at, &command.Fire{Due: keys.Due{At: at, Kind: keys.DueAudit, NS: ns, ID: op}})
		r.audit(t)
	}
	t.Run("done", func(t *testing.T) {
		t.Parallel()
		r := start(t)
		defer r.close(t)
		r.apply(t, logEntry{now: epoch + 3000, cmds: part(true)})
		fire(t, r, epoch+1000+auditOpenFor)
		p := auditOf(t, r, 0)
		if len(p.Records) != 1 || p.Records[0].Affected != 3 || p.Records[0].Refused != 1 || p.Records[0].Interrupted {
			t.Errorf("recorded %+v", p.Records)
		}
	})
	t.Run("never done", func(t *testing.T) {
		t.Parallel()
		r := start(t)
		defer r.close(t)
		fire(t, r, epoch+1000+auditOpenFor) // Its last part is younger.
		if p := auditOf(t, r, 0); len(p.Records) != 0 {
			t.Fatalf("recorded while it goes on: %+v", p.Records)
		}
		fire(t, r, epoch+2000+auditOpenFor)
		p := auditOf(t, r, 0)
		if len(p.Records) != 1 || p.Records[0].Affected != 3 || !p.Records[0].Interrupted {
			t.Errorf("recorded %+v", p.Records)
		}
	})
}

// The log is bounded in bytes; a record says how many uncollected records were deleted, and they are
// never another namespace's.
func TestAudit_IsBoundedAndSaysWhatWasCut(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	noisy, calm := auditNS(1), auditNS(2)
	r.apply(t, logEntry{now: epoch, cmds: pauseAct(calm, "usr_calm")})
	detail := []byte(`{"filter":"` + strings.Repeat("x", 1500) + `"}`)
	const acts = 1000
	for range acts {
		cmds := pauseAct(noisy, "key_noisy")
		cmds[0].(*command.Audit).Detail = detail
		r.apply(t, logEntry{now: epoch, cmds: cmds})
	}
	r.audit(t)
	p := auditOf(t, r, 0)
	if p.Records[0].By != "usr_calm" {
		t.Errorf("the other namespace's record is gone; the first is %+v", p.Records[0])
	}
	cut := p.Records[1]
	if cut.Act != ActCut || cut.Affected+uint64(len(p.Records)-2) != acts {
		t.Errorf("%d records and a marker that stands for %d (%s), want %d in all", len(p.Records)-2, cut.Affected, cut.Act, acts)
	}
	var size int
	for _, rec := range p.Records[1:] {
		size += len(rec.Encode())
	}
	if size > AuditNamespaceBytesMax {
		t.Errorf("%d bytes are kept", size)
	}
	// Collected records may be deleted silently.
	r.do(t, epoch, &command.AuditCollected{Through: p.Last})
	for range acts {
		cmds := pauseAct(noisy, "key_noisy")
		cmds[0].(*command.Audit).Detail = detail
		r.apply(t, logEntry{now: epoch, cmds: cmds})
	}
	r.audit(t)
	after := auditOf(t, r, p.Last)
	if after.Records[0].Act != ActCut || after.Records[0].Affected+uint64(len(after.Records)-1) != acts {
		t.Errorf("after it was taken: a marker %+v before %d records", after.Records[0], len(after.Records)-1)
	}
}

func TestAudit_WhatWasTakenStaysForTwoDays(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	for i := range 3 {
		r.apply(t, logEntry{now: epoch + int64(i)*int64(20*time.Hour), cmds: pauseAct(auditNS(1), "key_a")})
	}
	r.do(t, r.now, &command.AuditCollected{Through: 2})
	r.audit(t)
	if p := auditOf(t, r, 0); len(p.Records) != 3 || p.Taken != 2 {
		t.Errorf("%d records, taken to %d", len(p.Records), p.Taken)
	}
	r.do(t, epoch+int64(80*time.Hour), &command.AuditCollected{Through: 2})
	r.audit(t)
	p := auditOf(t, r, 0)
	if len(p.Records) != 1 || p.Records[0].Number != 3 { // Not taken: it stays.
		t.Errorf("left are %+v", p.Records)
	}
}

func TestAudit_RecordsRoundTrip(t *testing.T) {
	t.Parallel()
	rec := records.AuditRecord{
		Number: 3, Of: 2, NS: auditNS(1), At: 5, By: "k", Peer: "p", Act: "a", Type: "t", Target: "g", Detail: []byte(`{}`),
		Affected: 1, Refused: 2, Op: job.ID{3}, Interrupted: true,
	}
	got, err := records.DecodeAudit(3, rec.Encode())
	if err != nil || !bytes.Equal(got.Encode(), rec.Encode()) || got.Number != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
