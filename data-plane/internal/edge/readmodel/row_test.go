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
