package readmodel

import (
	"fmt"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

// failing is a job that has failed n times.
func (r *rig) failing(ns job.Namespace, n int) job.ID {
	r.Helper()
	c := r.newJob(ns, "mail")
	c.Retry.MaxRetries = uint32(n + 1)
	r.apply(c)
	for i := range n {
		if i > 0 {
			r.apply(&command.Retry{NS: ns, ID: c.ID})
		}
		g := r.apply(&command.Fetch{NS: ns, Jobs: []job.ID{c.ID}, Worker: "w1", Lease: time.Minute}).Results[0].Grants[0]
		by := command.Holder{Token: command.Token{Attempt: g.Attempt, Epoch: g.Epoch}}
		r.apply(&command.Fail{NS: ns, ID: c.ID, By: by, Error: fmt.Sprint("failure ", i+1)})
	}
	return c.ID
}

// Of a job that has failed often, the latest errors are read.
func TestErrors_TheLatestOfManyAreRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := r.failing(nsA, 250)
	last, err := stateread.ReadLastError(r.store, nsA, id)
	if err != nil || last.Text() != "failure 250" {
		t.Errorf("the last error is %q, %v", last.Text(), err)
	}
	j, err := stateread.ReadJob(r.store, nsA, id)
	if err != nil || len(j.Errors) != 100 {
		t.Fatalf("%d errors, %v", len(j.Errors), err)
	}
	for i, e := range j.Errors {
		if want := fmt.Sprint("failure ", 151+i); e.Text() != want {
			t.Errorf("error %d is %q, want %q", i, e.Text(), want)
		}
	}
	if last, err := stateread.ReadLastError(r.store, nsA, r.enqueue(nsA, "mail")); err != nil || last.Text() != "" {
		t.Errorf("a job without errors has %q, %v", last.Text(), err)
	}
}

// BenchmarkLastError measures the error that a list shows of a job, by how often that failed.
func BenchmarkLastError(b *testing.B) {
	for _, n := range []int{1, 20, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRig(b)
			id := r.failing(nsA, n)
			for b.Loop() {
				if _, err := stateread.ReadLastError(r.store, nsA, id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a shape leaves out of its statement is what its rows do not have.
func TestShape_BindsWhatTheRowHas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	f, err := r.models.take(t.Context(), nsA)
	if err != nil {
		t.Fatal(err)
	}
	defer r.models.giveBack(f)
	base := Row{Queue: "mail", State: job.Pending, Priority: job.Normal, MaxRetries: 3, CreatedAt: 1, ScheduledAt: 2, generation: 7}
	var rows []Row
	for i, set := range []func(*Row){
		func(*Row) {}, func(r *Row) { r.Attempt = 1 }, func(r *Row) { r.Crashes = 2 }, func(r *Row) { r.StartedAt = 3 }, func(r *Row) { r.FinishedAt = 4 },
		func(r *Row) { r.FailedAt = 5 }, func(r *Row) { r.Worker = "w" }, func(r *Row) { r.LastError = "e" }, func(r *Row) { r.HoldReason = "h" },
		func(r *Row) { r.Reason = 1 }, func(r *Row) { r.Tags = []command.Tag{{Key: "k", Value: "v"}} },
	} {
		row := base
		row.ID = job.ID{byte(i + 1)}
		set(&row)
		rows = append(rows, row)
	}
	if err := f.apply(t.Context(), &change{rows: rows, anyhow: true}); err != nil {
		t.Fatal(err)
	}
	got, err := listSome(t.Context(), f.read, &Filter{Ascending: true}, -1, nil, len(rows)+1) // Compares each row's sum.
	if err != nil || len(got.rows) != len(rows) {
		t.Fatalf("%d rows, %v", len(got.rows), err)
	}
	for i, row := range got.rows {
		if !sameRow(row, rows[i]) {
			t.Errorf("row %+v\nwant %+v", row, rows[i])
		}
	}
}
