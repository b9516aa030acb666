package readmodel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

func TestErrorPattern_RemovesWhatVaries(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"order 48213 not found":                           "order … not found",
		"job_06h5k failed at 0x1f":                        "… failed at …",
		"answered 503":                                    "answered 503",
		"row 3f2504e0-4f89-41d3-9a0c-0305e82c3301 locked": "row … locked",
		"POST https://hooks.partner-11.example: 410 Gone": "POST https://hooks.partner-….example: 410 Gone",
		"boom\n  at a.ts:1":                               "boom",
		"  no user 'Ann O', can't go on":                  "no user '…', can't go on",
		`column "a b" of ` + "`t`":                        "column \"…\" of `…`",
		"after 1m30s and 2.5 of 10.0.0.1.":                "after …m…s and … of ….",
		"commit deadbeef1 of v1.2":                        "commit … of v1.2",
		"customer_17 has 250":                             "customer_… has 250",
		"beim Öffnen: 7 Fehler":                           "beim Öffnen: … Fehler",
		"":                                                "",
		"'":                                               "'",
	} {
		if got := ErrorPattern(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if once := ErrorPattern(text); ErrorPattern(once) != once {
			t.Errorf("%q: the pattern's pattern is %q", once, ErrorPattern(once))
		}
	}
}

func (r *rig) die(ns job.Namespace, queue, text string, tags ...command.Tag) job.ID {
	c := r.newJob(ns, queue, tags...)
	c.Retry.MaxRetries = 1
	r.apply(c)
	r.fail(ns, c.ID, text)
	return c.ID
}

func (r *rig) deadGroups(ns job.Namespace, queue string, limit int) DeadGroups {
	r.Helper()
	d, err := r.DeadGroups(r.ctx(), ns, Reader{}, queue, nil, limit)
	if err != nil {
		r.Fatal(err)
	}
	return d
}

func TestDeadGroups_CountAllDeadJobsByCause(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	first := r.die(nsA, "mail", "order 1 not found")
	r.die(nsA, "mail", "smtp: 550")
	r.die(nsA, "print", "order 9 not found")
	last := r.die(nsA, "mail", "order 2 not found")
	r.die(nsB, "mail", "order 2 not found")
	r.settled(nsA)
	d := r.deadGroups(nsA, "", 10)
	if d.All != 3 || d.Jobs != 4 || len(d.Groups) != 3 || !d.Exact() {
		t.Fatalf("%+v", d)
	}
	g := d.Groups[0]
	if g.Queue != "mail" || g.Pattern != "order … not found" || g.Jobs != 2 || g.Sample != last || g.SampleError != "order 2 not found" || g.First >= g.Last {
		t.Fatalf("%+v", g)
	}
	if got := ids(r.page(nsA, Filter{Cause: g.Cause})); !slices.Equal(got, []job.ID{last, first}) {
		t.Fatalf("jobs of the group: %v", got)
	}
	if got := r.page(nsA, Filter{Cause: g.Cause, Queue: "print"}); len(got.Rows) != 0 {
		t.Fatalf("of another queue: %+v", got.Rows)
	}
	if d := r.deadGroups(nsA, "print", 10); d.All != 1 || d.Jobs != 1 || d.Groups[0].Queue != "print" {
		t.Fatalf("%+v", d)
	}
	if d := r.deadGroups(nsA, "", 1); d.All != 3 || d.Jobs != 4 || len(d.Groups) != 1 {
		t.Fatalf("one at a time: %+v", d)
	}
	if got := r.page(nsA, Filter{Cause: g.Cause, Queue: "mail", Limit: 1, CountTo: 1}); got.Total != (Count{Jobs: 2, Exact: true}) {
		t.Fatalf("total of the group: %+v", got.Total)
	}
	r.apply(&command.DeleteQueue{NS: nsA, Queue: "mail"})
	if d := r.deadGroups(nsA, "", 1); d.All != 1 || len(d.Groups) != 1 || d.Groups[0].Queue != "print" {
		t.Fatalf("the largest after the queue was deleted: %+v", d)
	}
	if got := r.page(nsA, Filter{Cause: g.Cause, CountTo: 10}); len(got.Rows) != 0 || got.Total != (Count{Exact: true}) {
		t.Fatalf("jobs of a group of a deleted queue: %+v", got)
	}
	if d := r.deadGroups(nsA, "", 10); d.All != 1 || d.Jobs != 1 {
		t.Fatalf("after the queue was deleted: %+v", d)
	}
}

// Whatever happens to dead jobs, and however the rows are written, the counts are those of
// the rows.
func TestDeadGroups_AreTheRowsInTheEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	rnd := rand.New(rand.NewPCG(7, 7))
	var dead []job.ID
	for i := range 300 {
		switch n := rnd.IntN(8); {
		case n < 5 || len(dead) == 0:
			dead = append(dead, r.die(nsA, fmt.Sprint("q", rnd.IntN(3)), fmt.Sprintf("%s %d", []string{"lost", "gone", "late"}[rnd.IntN(3)], i)))
		case n == 5:
			r.apply(&command.Retry{NS: nsA, ID: dead[rnd.IntN(len(dead))]})
		case n == 6:
			r.apply(&command.Delete{NS: nsA, ID: dead[rnd.IntN(len(dead))]})
		default:
			r.apply(&command.Move{NS: nsA, ID: dead[rnd.IntN(len(dead))], Queue: fmt.Sprint("q", rnd.IntN(3))})
		}
	}
	check := func(when string) {
		t.Helper()
		r.settled(nsA)
		want := map[Cause]int64{}
		for _, row := range r.all(nsA, Filter{States: []job.State{job.Dead}, Limit: 100}) {
			want[row.cause()]++
		}
		d := r.deadGroups(nsA, "", 100)
		var all int64
		for _, n := range want {
			all += n
		}
		if d.All != len(want) || d.Jobs != all {
			t.Fatalf("%s: %d groups with %d jobs, want %d with %d", when, d.All, d.Jobs, len(want), all)
		}
		for _, g := range d.Groups {
			if want[g.Cause] != g.Jobs || len(r.all(nsA, Filter{Cause: g.Cause, Limit: 100})) != int(g.Jobs) {
				t.Fatalf("%s: %+v, want %d", when, g, want[g.Cause])
			}
		}
		if len(d.Groups) != len(want) || len(want) < 3 {
			t.Fatalf("%s: %d groups, want %d", when, len(d.Groups), len(want))
		}
	}
	check("projected")
	if err := r.models.discard(nsA); err != nil {
		t.Fatal(err)
	}
	r.halt()
	r.open()
	r.run()
	check("rebuilt")
}

// Some of many dead jobs are retried, next to others that are not.
func TestDeadGroups_FewOfManyDeadJobsChange(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	var dead []job.ID
	for i := range 60 {
		dead = append(dead, r.die(nsA, "mail", "smtp: 550"))
		if i%20 == 0 {
			r.finish(nsA, r.enqueue(nsA, "mail"))
		}
	}
	r.wantTruth(nsA)
	r.stop()
	for _, i := range []int{0, 1, 30, 45, 59} {
		r.apply(&command.Retry{NS: nsA, ID: dead[i]})
	}
	r.apply(&command.Delete{NS: nsA, ID: dead[31]})
	r.apply(&command.Move{NS: nsA, ID: dead[50], Queue: "print"})
	r.run()
	r.wantTruth(nsA)
	if d := r.deadGroups(nsA, "", 10); d.All != 2 || d.Jobs != 54 || d.Groups[0].Jobs != 53 {
		t.Fatalf("%+v", d)
	}
}

// The last job of a group may be retried while the group is read.
func TestDeadGroups_AreOneSnapshot(t *testing.T) {
	t.Parallel()
	f, err := openFile(t.Context(), nsA, filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.close() })
	put := func(st job.State) error {
		c := slice(0, 200)
		for i := range c.rows {
			c.rows[i].State = st
		}
		return f.apply(context.Background(), c)
	}
	if err := put(job.Dead); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 20 && err == nil; i++ {
			err = errors.Join(put(job.Pending), put(job.Dead))
		}
		done <- err
	}()
	for reads := 0; ; reads++ {
		var d DeadGroups
		if err := d.read(t.Context(), f.read, nil, 1000, nil); err != nil || len(d.Groups) != d.All || d.All%200 != 0 || d.Jobs != int64(d.All)*5 {
			t.Fatalf("read %d: %d of %d groups with %d jobs, %v", reads, len(d.Groups), d.All, d.Jobs, err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}
