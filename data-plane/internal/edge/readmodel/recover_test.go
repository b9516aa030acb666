package readmodel

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// truth is every row of a namespace as the state has it.
func (r *rig) truth(ns job.Namespace) map[job.ID]Row {
	r.Helper()
	heads, _, done, err := stateread.NewHeadReader(r.store).Heads(ns, job.ID{}, 1<<20)
	if err != nil || !done {
		r.Fatal(done, err)
	}
	ids := make([]job.ID, len(heads))
	for i := range heads {
		ids[i] = heads[i].ID
	}
	c, err := r.read(ns, ids)
	if err != nil || len(c.gone) != 0 {
		r.Fatal(c.gone, err)
	}
	all := make(map[job.ID]Row, len(heads))
	for _, row := range c.rows {
		all[row.ID] = row
	}
	return all
}

// all reads every page.
func (r *rig) all(ns job.Namespace, f Filter) []Row {
	r.Helper()
	var rows []Row
	for {
		p := r.page(ns, f)
		rows = append(rows, p.Rows...)
		if f.Cursor = p.Cursor; f.Cursor == "" {
			return rows
		}
	}
}

// wantTruth waits until the model is current and compares it with the state.
func (r *rig) wantTruth(ns job.Namespace) {
	r.Helper()
	r.settled(ns)
	want := r.truth(ns)
	tags := map[command.Tag]int{}
	rows := r.all(ns, Filter{Limit: LimitMax})
	if len(rows) != len(want) {
		r.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for _, row := range rows {
		if w := want[row.ID]; !sameRow(row, w) {
			r.Fatalf("row %+v\nwant %+v", row, w)
		}
		for _, t := range row.Tags {
			tags[t]++
		}
	}
	for t, n := range tags {
		if found := r.all(ns, Filter{Limit: LimitMax, Tags: []command.Tag{t}}); len(found) != n {
			r.Fatalf("%d jobs with %v, want %d", len(found), t, n)
		}
	}
	f, err := r.models.take(r.ctx(), ns)
	if err != nil {
		r.Fatal(err)
	}
	defer r.models.giveBack(f)
	for what, sql := range map[string]string{
		"tags of jobs that are gone":      `SELECT count(*) FROM tag t WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.id = t.id)`,
		"dead jobs that are not":          `SELECT count(*) FROM dead d WHERE NOT EXISTS (SELECT 1 FROM job j WHERE j.id = d.id AND j.state = ?1 AND j.queue = d.queue AND j.generation = d.generation AND j.created_at = d.created_at AND j.finished_at = d.finished_at)`,
		"dead jobs that are missing":      `SELECT count(*) FROM job j WHERE j.state = ?1 AND NOT EXISTS (SELECT 1 FROM dead d WHERE d.id = j.id)`,
		"groups with another count":       `SELECT count(*) FROM cause c WHERE jobs <> (SELECT count(*) FROM dead d WHERE d.cause = c.cause AND d.generation = c.generation AND d.queue = c.queue)`,
		"groups that are missing":         `SELECT count(*) FROM dead d WHERE NOT EXISTS (SELECT 1 FROM cause c WHERE c.cause = d.cause AND c.generation = d.generation)`,
		"queues with another total":       `SELECT count(*) FROM dead_total t WHERE (causes, jobs) <> (SELECT count(*), ifnull(sum(jobs), 0) FROM cause c WHERE c.queue = t.queue AND c.generation = t.generation)`,
		"queues of which the total lacks": `SELECT count(*) FROM cause c WHERE NOT EXISTS (SELECT 1 FROM dead_total t WHERE t.queue = c.queue AND t.generation = c.generation)`,
	} {
		var n int
		if err := f.read.QueryRow(sql, int64(job.Dead)).Scan(&n); err != nil || n != 0 {
			r.Fatalf("%d %s, %v", n, what, err)
		}
	}
}

func sameRow(a, b Row) bool {
	if len(a.Tags) != len(b.Tags) {
		return false
	}
	for i := range a.Tags {
		if a.Tags[i] != b.Tags[i] {
			return false
		}
	}
	a.Tags, b.Tags = nil, nil
	return a.ID == b.ID && a.Queue == b.Queue && a.State == b.State && a.Priority == b.Priority && a.Attempt == b.Attempt &&
		a.MaxRetries == b.MaxRetries && a.Crashes == b.Crashes && a.CreatedAt == b.CreatedAt && a.ScheduledAt == b.ScheduledAt &&
		a.StartedAt == b.StartedAt && a.FinishedAt == b.FinishedAt && a.FailedAt == b.FailedAt && a.Worker == b.Worker &&
		a.LastError == b.LastError && a.HoldReason == b.HoldReason && a.Reason == b.Reason
}

// edit changes a namespace's file behind the projector's back, while it is closed, into
// one that could have been written.
func (r *rig) edit(ns job.Namespace, text string) { r.change(ns, text, reseal) }

// damage is edit without that.
func (r *rig) damage(ns job.Namespace, text string) {
	r.change(ns, text, func(*sql.DB) error { return nil })
}

func (r *rig) change(ns job.Namespace, text string, finish func(*sql.DB) error) {
	r.Helper()
	f, err := openFile(context.Background(), ns, r.models.path(ns))
	if err == nil {
		_, err = f.write.Exec(text)
		err = errors.Join(err, finish(f.write), f.close())
	}
	if err != nil {
		r.Fatal(err)
	}
}

// reseal gives the mark the checksum of what it says.
func reseal(db *sql.DB) error {
	var m mark
	var to []byte
	err := db.QueryRow(`SELECT seq, rebuilding, rebuilt_to, rebuilt_from, jobs, rebuilt, since FROM mark`).Scan(&m.seq, &m.rebuilding, &to, &m.rebuiltFrom, &m.jobs, &m.rebuilt, &m.since)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	copy(m.rebuiltTo[:], to)
	_, uerr := db.Exec(`UPDATE mark SET sum = ?`, m.sum())
	return errors.Join(err, uerr)
}

// some fills a namespace with jobs in several states, with tags and errors.
func (r *rig) some(ns job.Namespace) {
	red := command.Tag{Key: "team", Value: "red"}
	r.enqueue(ns, "mail", red)
	r.finish(ns, r.enqueue(ns, "mail"))
	r.fail(ns, r.enqueue(ns, "print", red, command.Tag{Key: "tier", Value: "1"}), "out of paper")
	c := r.newJob(ns, "mail", red)
	c.ScheduledAt = r.now + int64(time.Hour)
	r.apply(c)
	gone := r.enqueue(ns, "mail", red)
	r.apply(&command.Delete{NS: ns, ID: gone})
}

func TestRows_AreWhatTheStateHas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	r.some(nsA)
	r.some(nsB)
	r.wantTruth(nsA)
	r.some(nsA)
	r.wantTruth(nsA)
	r.wantTruth(nsB)
	p := r.page(nsA, Filter{Queue: "print", Limit: 1})
	if row := p.Rows[0]; row.LastError != "out of paper" || row.State != job.Retrying || row.ScheduledAt <= row.FailedAt || len(row.Tags) != 2 {
		t.Fatalf("row %+v", row)
	}
}

// What was projected before a restart is not projected again, and what happened
// meanwhile is found.
func TestRun_ResumesWhereTheFileStands(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	old := r.enqueue(nsA, "mail")
	r.wantTruth(nsA)
	row := r.page(nsA, Filter{}).Rows[0]
	row.Worker = "untouched"
	r.halt()
	r.edit(nsA, fmt.Sprintf(`UPDATE job SET worker = 'untouched', sum = %d`, row.sum(nil)))
	young := r.enqueue(nsA, "mail")
	r.open()
	r.run()
	r.settled(nsA)
	rows := r.page(nsA, Filter{}).Rows
	if len(rows) != 2 || rows[0].ID != young || rows[1].ID != old || rows[1].Worker != "untouched" {
		t.Fatalf("rows %+v", rows)
	}
}

// A crash between rounds loses rows and mark together; the same events again do no
// harm, also when their rows are there already.
func TestRun_ProjectingTheSameEventsAgainIsHarmless(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		`UPDATE mark SET seq = 3`,
		`UPDATE mark SET seq = 1; DELETE FROM job; DELETE FROM tag`,
		`UPDATE mark SET seq = 1; UPDATE job SET state = 1, attempt = 9`,
		`UPDATE mark SET rebuilding = 1, rebuilt_to = x''; UPDATE job SET attempt = 9`,
		`UPDATE mark SET rebuilding = 1, rebuilt_to = x''; DELETE FROM tag; DELETE FROM job`,
		`UPDATE mark SET seq = 4000`, // Ahead of the state: somebody else's file.
		`DELETE FROM mark`,
		`DROP TABLE tag`,
		`DROP INDEX job_by_state`,
		`PRAGMA user_version = 99`,
		`UPDATE job SET tags = x'ff'`,
		`UPDATE cause SET jobs = 0`,
		`DROP TABLE dead_total`,
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.run()
			first := r.enqueue(nsA, "mail")
			dead := r.die(nsA, "mail", "smtp: 550")
			r.some(nsA)
			r.wantTruth(nsA)
			r.halt()
			r.edit(nsA, sql)
			r.open()
			r.run()
			r.finish(nsA, first)
			r.apply(&command.Retry{NS: nsA, ID: dead})
			r.eventuallyTrue(nsA)
		})
	}
}

// eventuallyTrue is wantTruth for files of which a query may be told that they are
// being rebuilt.
func (r *rig) eventuallyTrue(ns job.Namespace) {
	r.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		f := Filter{Limit: LimitMax}
		p, err := r.List(r.ctx(), ns, Reader{}, &f)
		if err == nil && !p.Rebuilding && p.Lag == 0 {
			break
		}
		if err != nil && fault.CodeOf(err) != fault.Unavailable || time.Now().After(deadline) {
			r.Fatalf("%+v, %v", p, err)
		}
	}
	r.wantTruth(ns)
}

func TestRun_RebuildsWhatTheFeedNoLongerHas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	gone := r.enqueue(nsA, "mail", command.Tag{Key: "k", Value: "v"})
	r.some(nsA)
	r.wantTruth(nsA)
	r.halt()
	r.apply(&command.Delete{NS: nsA, ID: gone})
	r.some(nsA)
	r.trim(nsA)
	r.open()
	r.run()
	r.wantTruth(nsA)
}

// A projector that is so slow that the feed is trimmed before it reads it starts over.
func TestRun_FeedCutWhileProjecting(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.begin() // A term whose goroutine never got the processor.
	r.some(nsA)
	r.trim(nsA)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 20 {
		if _, err := r.step(ctx); err != nil {
			t.Fatal(err)
		}
	}
	r.wantTruth(nsA)
}

func TestRun_DamagedFilesAreMadeAnew(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(b []byte) []byte{
		"garbage":   func([]byte) []byte { return []byte("this is no database, however you look at it") },
		"empty":     func([]byte) []byte { return nil },
		"half":      func(b []byte) []byte { return b[:len(b)/2] },
		"one page":  func(b []byte) []byte { return b[:4096] },
		"zero tail": func(b []byte) []byte { clear(b[4096:]); return b },
		"noise": func(b []byte) []byte {
			for i := 5000; i < len(b); i += 7 {
				b[i] ^= 0x55
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.run()
			for range 30 {
				r.some(nsA)
			}
			r.wantTruth(nsA)
			r.halt()
			path := r.models.path(nsA)
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, damage(b), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.open()
			r.run()
			r.enqueue(nsA, "mail")
			r.eventuallyTrue(nsA)
		})
	}
}

// Somebody deletes the files of a running node.
func TestRun_RemovedFilesAreMadeAnew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	r.some(nsA)
	r.wantTruth(nsA)
	r.models.mu.Lock()
	r.models.max = 1
	err := r.models.remove(nsA)
	r.models.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	r.some(nsB) // Pushes the other's file out.
	r.wantTruth(nsB)
	r.eventuallyTrue(nsA)
}

// The jobs of a deleted queue are in no list from then on, although their rows go
// one by one, and a queue of the same name may be there already.
func TestList_JobsOfADeletedQueueAreGoneAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	old := r.enqueue(nsA, "mail")
	other := r.enqueue(nsA, "print")
	r.finish(nsA, r.enqueue(nsA, "mail"))
	r.settled(nsA)
	r.apply(&command.DeleteQueue{NS: nsA, Queue: "mail"})
	if got := ids(r.page(nsA, Filter{})); !slices.Equal(got, []job.ID{other}) {
		t.Fatalf("after the deletion: %v", got)
	}
	young := r.enqueue(nsA, "mail")
	if got := ids(r.page(nsA, Filter{})); !slices.Equal(got, []job.ID{young, other}) {
		t.Fatalf("after a new one: %v", got)
	}
	r.apply(&command.Sweep{NS: nsA, Queue: "mail", Jobs: []job.ID{old}})
	r.halt()
	r.edit(nsA, `UPDATE mark SET rebuilding = 1`)
	r.open()
	r.run()
	r.wantTruth(nsA)
	if got := ids(r.page(nsA, Filter{})); !slices.Equal(got, []job.ID{young, other}) {
		t.Fatalf("after a rebuild: %v", got)
	}
}

// What is there while a cleared queue is swept is listed, however old it is: what its
// workers held and gave back, and what was moved there since.
func TestList_JobsThatOutliveAClearedQueueAreListed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	waits, released, held, active, done := r.enqueue(nsA, "mail"), r.enqueue(nsA, "mail"), r.enqueue(nsA, "mail"), r.enqueue(nsA, "mail"), r.enqueue(nsA, "mail")
	moved, gone := r.enqueue(nsA, "print"), r.enqueue(nsA, "mail")
	for _, id := range []job.ID{released, held, active, done} {
		r.start(nsA, id)
	}
	r.apply(&command.ClearQueue{NS: nsA, Queue: "mail"})
	if got := ids(r.page(nsA, Filter{Ascending: true})); !slices.Equal(got, []job.ID{released, held, active, done, moved}) {
		t.Fatalf("after the queue was cleared: %v", got)
	}
	r.apply(&command.Fail{NS: nsA, ID: released, Release: true})
	r.apply(&command.Hold{NS: nsA, ID: held}, &command.Fail{NS: nsA, ID: held, Release: true})
	r.apply(&command.Ack{NS: nsA, ID: done})
	r.apply(&command.Move{NS: nsA, ID: moved, Queue: "mail"})
	want := []job.ID{released, held, active, done, moved}
	for _, f := range []Filter{{Ascending: true}, {Ascending: true, Queue: "mail"}} {
		if got := ids(r.page(nsA, f)); !slices.Equal(got, want) {
			t.Errorf("what became of them: %v, want %v", got, want)
		}
	}
	// Once more, and then the whole queue; what was moved away first stays.
	r.apply(&command.Move{NS: nsA, ID: held, Queue: "print"})
	r.apply(&command.ClearQueue{NS: nsA, Queue: "mail"})
	if got := ids(r.page(nsA, Filter{Ascending: true})); !slices.Equal(got, []job.ID{held, active}) {
		t.Errorf("after it was cleared again: %v", got)
	}
	r.apply(&command.DeleteQueue{NS: nsA, Queue: "mail"})
	r.apply(&command.Move{NS: nsA, ID: held, Queue: "mail"})
	if got := ids(r.page(nsA, Filter{Ascending: true})); !slices.Equal(got, []job.ID{held}) {
		t.Errorf("after it was deleted: %v", got)
	}
	r.apply(&command.Sweep{NS: nsA, Queue: "mail", Jobs: []job.ID{waits, released, active, done, moved, gone, held}})
	r.wantTruth(nsA)
	if got := ids(r.page(nsA, Filter{Ascending: true})); !slices.Equal(got, []job.ID{held}) {
		t.Errorf("after the sweep: %v", got)
	}
}

// Another node led in between: the changes of its term are found, even without new events.
func TestRun_ANewTermFindsWhatHappenedInBetween(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.run()
	r.some(nsA)
	r.wantTruth(nsA)
	r.stop()
	r.some(nsA)
	r.some(nsB)
	r.run()
	r.wantTruth(nsA)
	r.wantTruth(nsB)
}

func TestDir_OpenFilesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.models.max = 3
	r.run()
	for round := range 2 {
		for i := range 12 {
			r.enqueue(job.Namespace{1, byte(i)}, "mail")
			r.models.mu.Lock()
			open := len(r.models.open)
			r.models.mu.Unlock()
			if open > 3 {
				t.Fatalf("%d files are open", open)
			}
		}
		for i := range 12 {
			r.wantTruth(job.Namespace{1, byte(i)})
			if rows := r.page(job.Namespace{1, byte(i)}, Filter{}).Rows; len(rows) != round+1 {
				t.Fatalf("namespace %d has %d jobs", i, len(rows))
			}
		}
	}
}

// An open file takes memory: nobody needs that of a namespace in which nothing happens.
func TestDir_FilesThatNobodyUsesAreClosed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	later := atomic.Int64{}
	r.models.now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	r.run()
	r.some(nsA)
	r.some(nsB)
	r.wantTruth(nsA)
	r.wantTruth(nsB)
	later.Store(int64(unusedMax / 2))
	r.wantTruth(nsB)
	later.Store(int64(unusedMax))
	r.models.closeUnused()
	r.models.mu.Lock()
	a, b, armed := r.models.open[nsA], r.models.open[nsB], r.models.unused != nil
	r.models.mu.Unlock()
	if a != nil || b == nil || !armed {
		t.Errorf("the unused file is open: %v, the used one %v, and will be looked at: %v", a != nil, b != nil, armed)
	}
	r.wantTruth(nsA)
}

// Whatever happens to jobs, feed, files and terms, in the end the model is the state.
func TestModel_IsTheStateInTheEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r := newRig(t)
		defer r.halt()
		var all []job.ID
		pick := func() job.ID {
			if len(all) == 0 {
				return job.ID{9}
			}
			return rapid.SampledFrom(all).Draw(rt, "job")
		}
		running := false
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 10).Draw(rt, "step") {
			case 0, 1, 2:
				all = append(all, r.enqueue(nsA, "mail", command.Tag{Key: "k", Value: rapid.SampledFrom([]string{"1", "2"}).Draw(rt, "tag")}))
			case 3:
				r.apply(&command.Fetch{NS: nsA, Jobs: []job.ID{pick()}, Worker: "w", Lease: time.Minute})
			case 4:
				r.apply(&command.Ack{NS: nsA, ID: pick()})
			case 5:
				r.apply(&command.Fail{NS: nsA, ID: pick(), Error: "boom"})
			case 6:
				r.apply(&command.Delete{NS: nsA, ID: pick()})
			case 7:
				r.trim(nsA)
			case 8, 9:
				if running {
					r.stop()
				} else {
					r.run()
				}
				running = !running
			case 10:
				if running {
					r.stop()
				}
				running = false
				if err := r.models.Close(); err != nil {
					rt.Fatal(err)
				}
				r.open()
			}
		}
		if !running {
			r.run()
		}
		r.wantTruth(nsA)
		r.stop()
	})
}

// A file that can not be opened holds up nobody else and is tried again.
func TestRun_AFileThatCanNotBeOpenedIsTriedAgain(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the pause between two tries")
	}
	r := newRig(t)
	path := r.models.path(nsA)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	r.run()
	r.some(nsA)
	r.some(nsB)
	r.wantTruth(nsB)
	f := Filter{Limit: 1}
	if p, err := r.List(r.ctx(), nsA, Reader{}, &f); err == nil {
		t.Fatalf("a list without a file: %+v", p)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	eventually.NoError(t, patience, "a whole list", func() error {
		p, err := r.List(r.ctx(), nsA, Reader{}, &f)
		if err == nil && (p.Rebuilding || p.Lag != 0) {
			err = fmt.Errorf("%+v", p)
		}
		return err
	})
	r.wantTruth(nsA)
}

// However many queues are still to be swept, a list is right and the copy is not rebuilt.
// Nor is it slower for each of them: 20,000 were more than a statement may bind.
func TestList_ManyDeletedQueuesAreLeftOutAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	queues := 20_000
	if testing.Short() {
		queues = 3_300
	}
	var add, destroy []command.Command
	for i := range queues {
		name := fmt.Sprint("customer-", i)
		add = append(add, r.newJob(nsA, name))
		destroy = append(destroy, &command.DeleteQueue{NS: nsA, Queue: name})
	}
	first := r.enqueue(nsA, "stays")
	for batch := range slices.Chunk(add, 500) {
		r.apply(batch...)
	}
	last := r.enqueue(nsA, "stays")
	r.enqueue(nsB, "customer-7")
	r.models.ordinary = queryMax // One page passes over all of them.
	r.run()
	r.settled(nsA)
	for batch := range slices.Chunk(destroy, 500) {
		r.apply(batch...)
	}
	r.settled(nsA)
	for name, f := range map[string]Filter{
		"all": {}, "states": {States: []job.State{job.Pending, job.Held}}, "of the queue": {Queue: "stays"},
		"counted": {CountTo: 10_000}, "a page of a few": {Limit: 2},
	} {
		page := r.page(nsA, f)
		if len(page.Rows) != 2 || page.Rows[0].ID != last || page.Rows[1].ID != first || page.Rebuilding || page.Cursor != "" {
			t.Errorf("%s: %d rows, rebuilding %v, cursor %q", name, len(page.Rows), page.Rebuilding, page.Cursor)
		}
	}
	if page := r.page(nsA, Filter{Queue: "customer-7", CountTo: 10}); len(page.Rows) != 0 || page.Total != (Count{0, true}) {
		t.Errorf("a deleted queue has %d rows, %v", len(page.Rows), page.Total)
	}
	if page := r.page(nsB, Filter{}); len(page.Rows) != 1 {
		t.Errorf("the queue of another namespace has %d rows", len(page.Rows))
	}
}

// The newest page is never refused: a walk over rows of deleted queues that takes too long
// returns what it found, and a cursor to continue.
func TestOnePage_AWalkThatTakesTooLongIsAPageToo(t *testing.T) {
	t.Parallel()
	gone := map[string]stateread.DeletedQueue{"gone": {Kept: 9, Alive: 9}}
	at := func(n int64) Row { return Row{Queue: "gone", CreatedAt: n} }
	alive := Row{Queue: "alive", CreatedAt: 99}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	got, err := onePage(ctx, 3, nil, gone, inTime, func(from *Position, n int) (step, error) {
		if calls++; calls == 3 {
			cancel()
			return step{}, ctx.Err()
		}
		rows := []Row{alive}
		for i := range n - 1 {
			rows = append(rows, at(int64(calls*100+i)))
		}
		last := rows[len(rows)-1].position()
		return step{rows, &last}, nil
	})
	if err != nil || !got.more || len(got.rows) != 2 || got.next.CreatedAt != 206 {
		t.Fatalf("%d rows, more %v from %d, %v", len(got.rows), got.more, got.next.CreatedAt, err)
	}
	if _, err := onePage(ctx, 3, nil, gone, inTime, func(*Position, int) (step, error) { return step{}, ctx.Err() }); err == nil {
		t.Fatal("a walk that saw nothing is a page")
	}
}

// While a list is rebuilt it reports for how long jobs may be missing, and its progress;
// the shard's lag includes it. A small namespace does not wait for a large one.
func TestRebuild_IsLateSaysHowFarItIsAndLetsSmallOnesThrough(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const large = 20 * sliceMax
	r.fillWith(nsA, large, false) // By its id it comes first.
	r.some(nsB)
	ctx := t.Context()
	r.models.freshWait, r.models.mendWait = time.Hour, time.Hour // The list is not waited for.
	r.begin()
	if more, err := r.survey(ctx); more || err != nil {
		t.Fatalf("survey: %v, %v", more, err)
	}
	for range 3 {
		r.mend(ctx)
	}
	if b := r.look(nsB); !b.known || !b.whole() {
		t.Fatalf("the small namespace waits: %+v", b)
	}
	a := r.look(nsA)
	if a.whole() || a.jobs < large || a.rebuilt == 0 || a.rebuilt > a.jobs/2 {
		t.Fatalf("the large namespace: %d of %d, whole %v", a.rebuilt, a.jobs, a.whole())
	}
	if lag, err := r.Lag(time.Unix(0, r.now)); err != nil || lag <= 0 {
		t.Fatalf("lists that miss jobs are %s late, %v", lag, err)
	}
	page := r.page(nsA, Filter{CountTo: 10})
	if !page.Rebuilding || page.Lag <= 0 || page.Rebuilt == 0 || page.ToRebuild != a.jobs || page.AsOf.After(time.Unix(0, r.now).Add(-time.Millisecond)) {
		t.Fatalf("page: rebuilding %v, %s late, %d of %d", page.Rebuilding, page.Lag, page.Rebuilt, page.ToRebuild)
	}
	if small := r.page(nsB, Filter{}); !small.Exact() {
		t.Fatalf("page of the small namespace: %+v", small)
	}
	for r.mend(ctx) {
	}
	if page := r.page(nsA, Filter{}); page.Rebuilding || page.Lag != 0 || page.Rebuilt+page.ToRebuild != 0 {
		t.Fatalf("page of a whole list: %+v", page)
	}
	if lag, err := r.Lag(time.Unix(0, r.now)); err != nil || lag != 0 {
		t.Fatalf("whole lists are %s late, %v", lag, err)
	}
}

// SQLite has no checksums: a changed bit in any column is found when the row is read, or by a
// check, and the file is made again.
func TestCheck_FindsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		`UPDATE job SET worker = 'other'`,
		`UPDATE job SET attempt = attempt + 1`,
		`UPDATE job SET tags = NULL`,
		`UPDATE tag SET value = 'other'`,
		`UPDATE tag SET created_at = created_at + 1`,
		`UPDATE dead SET queue = 'other'`,
		`UPDATE dead_total SET jobs = jobs + 1`,
		`UPDATE minute SET enqueued = enqueued + 4`,
		`UPDATE minute SET completed = completed + 1`,
		`UPDATE minute SET failed = failed - 1`,
		`UPDATE minute SET sum = sum + 1`,
		`UPDATE minute SET at = at + 1024`,
		`UPDATE mark SET seq = seq - 1`,
		`UPDATE mark SET rebuilding = 1`,
		`UPDATE mark SET rebuilt_to = x'00000000000000000000000000000001'`,
		`UPDATE mark SET jobs = jobs + 1`,
		`UPDATE mark SET since = since + 1`,
	} {
		r := newRig(t)
		r.run()
		r.some(nsA)
		dies := r.newJob(nsA, "mail")
		dies.Retry.MaxRetries = 1
		r.apply(dies)
		r.fail(nsA, dies.ID, "boom")
		r.wantTruth(nsA)
		check := func() (found int) {
			files, err := r.models.Check(r.ctx(), func(int) error { return nil }, func(string, error) { found++ })
			if err != nil || files != 1 {
				t.Errorf("%s: %d files, %v", sql, files, err)
			}
			return found
		}
		if n := check(); n != 0 {
			t.Errorf("%s: undamaged, %d found", sql, n)
		}
		r.halt()
		r.damage(nsA, sql)
		r.open()
		if n := check(); n != 1 {
			t.Errorf("%s: %d found", sql, n)
		}
		r.run()
		r.wantTruth(nsA)
	}
}
