package state

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

// What earlier commits wrote is read for ever, and a record without anything of a
// later version is still written as it was: replicas of two binaries stay equal.
func TestRecords_GoldenBytesOfEachVersion(t *testing.T) {
	t.Parallel()
	const (
		head1   = "010171030105028094ebdc0380b09dc2df01020103048080d0e2c6bfce972f00050680b09dc2df01017701680000000000000007118280d0e2c6bfce972f8480d0e2c6bfce972f8680d0e2c6bfce972f0203018080d0e2c6bfce972f00040a01060301"
		counts1 = "010a000000000000000000000e04000000000000"
		queue1  = "01018080d0e2c6bfce972f"
		lock1   = "0101000000000000000000000000000000020000000000000000000000000000008080d0e2c6bfce972f0101"
	)
	h1, h2 := sampleHead(), sampleHead()
	h2.gen = 300
	c1 := Counts{Enqueued: 7, Failed: 2}
	c2 := c1
	c2.starts = starts{{epoch, epoch + 5, 2}, {epoch + 7, epoch + 7, 1}}
	q1 := QueueConfig{Paused: true, CreatedAt: epoch}
	q2 := QueueConfig{Paused: true, CreatedAt: epoch, MaxConcurrency: 300, Throttle: command.Throttle{Limit: 1000, Window: time.Minute}, gen: 7}
	l1 := lock{Owner: job.ID{1}, By: job.ID{2}, Expires: epoch, State: job.Pending, Duplicate: true}
	l2 := l1
	l2.gen = 300
	m := sweepMark{gen: 300, at: epoch}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"head 1": {h1.encode(), head1}, "head 2": {h2.encode(), "02" + head1[2:] + "ac02"},
		"counts 1": {c1.encode(), counts1}, "counts 2": {c2.encode(), "02" + counts1[2:] + "02" + "8080d0e2c6bfce972f" + "0a02" + "040001"},
		"queue 1": {q1.encode(), queue1}, "queue 2": {q2.encode(), "02" + queue1[2:] + "ac02" + "e807" + "80b09dc2df01" + "07"},
		"lock 1": {l1.encode(), lock1}, "lock 2": {l2.encode(), "02" + lock1[2:] + "ac02"},
		"sweep mark 1": {m.encode(), "01" + "ac02" + "8080d0e2c6bfce972f"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s is\n%s, want\n%s", name, got, c.want)
		}
	}
}

// The same for the records of groups, usage, budgets, policies, agents and schedules.
func TestRecords_GoldenBytesOfGroupsMoneyAndSchedules(t *testing.T) {
	t.Parallel()
	step := &command.Step{Queue: "q", Payload: []byte("{}")}
	batch := Batch{CreatedAt: epoch, FinishedAt: epoch + 1, Callback: "q", CallbackID: job.ID{1}, Sealed: true, Total: 5, Open: 1, Counts: [outcomeSlots]uint64{0, 1, 2, 0, 1}}
	chain := &command.Chain{ID: job.ChainID{2}, Steps: []command.Step{*step, {Queue: "r"}}, OnFailure: step, GoOn: true}
	state := ChainState{
		CreatedAt: epoch, FinishedAt: epoch + 1, Status: ChainExited, Steps: 2, Jobs: []job.ID{{1}, {3}}, OnExit: job.ID{4}, ExitReason: "enough",
	}
	meter := Meter{Input: 1, Output: 2, CacheCreation: 3, CacheRead: 4, Cost: -500, Attempts: 6}
	used := JobUsage{
		Lease: keys.Position{Index: 300, Ordinal: 1}, Iteration: meter, Provider: "p", Model: "m",
		Lines: []UsageLine{{Provider: "p", Model: "m", Sum: meter, total: Meter{Cost: 1}}, {Sum: meter}},
	}
	iteration := Iteration{
		Status: command.AgentHold, At: epoch, Checkpoint: []byte("c"), Result: []byte("r"), HoldReason: "h", Usage: meter,
		Provider: "p", Model: "m", Lease: keys.Position{Index: 300, Ordinal: 1},
	}
	budget := Budget{CreatedAt: epoch, Budget: command.Budget{
		ID: job.BudgetID{1}, Scope: command.BudgetTag, Target: "k=v", Daily: 1000, PerJob: 2, On: command.ExceedAlert,
	}}
	day := budgetDay{cost: -500, told: true}
	policy := Policy{CreatedAt: epoch, Policy: command.Policy{
		ID: job.PolicyID{1}, Name: "n", Enabled: true, Any: true, Queue: "q", TagKey: "k", TagValue: "v", Approvers: []string{"a"},
		Expires: time.Hour, ApproveAtLast: true,
	}}
	schedule := Schedule{
		Schedule: command.Schedule{
			Name: "s", Cron: "0 * * * *", Zone: "UTC", Paused: true, Jitter: time.Second, Overlap: command.OverlapCancel, CatchUp: command.CatchUpAll,
			Job: command.Template{
				Queue: "q", Payload: []byte("{}"), Priority: job.High, Retry: command.DefaultRetry(), RetryOpen: command.RetryMax, ExpireAfter: time.Minute,
				Tags: []command.Tag{{Key: "k", Value: "v"}}, UniqueKey: "u", UniqueFor: time.Hour,
			},
		},
		Version: 300, CreatedAt: epoch, UpdatedAt: epoch + 1, Next: epoch + 2, Since: epoch + 3, LastRun: epoch + 4, LastJob: job.ID{5}, Missed: 6,
	}
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"batch 2":            {batch.encode(), "028080d0e2c6bfce972f8280d0e2c6bfce972f017101000000000000000000000000000000010501050001020001"},
		"callback 1":         {encodeCallback(step.Payload), "01027b7d"},
		"chain 1":            {encodeChain(chain), "0102000000000000000000000000000000020171027b7d017200010171027b7d0001"},
		"chain state 1":      {state.encode(), "018080d0e2c6bfce972f8280d0e2c6bfce972f0202020100000000000000000000000000000003000000000000000000000000000000000000000000000000000000000000000400000000000000000000000000000006656e6f756768"},
		"outcome 1":          {encodeOutcome(OutcomeDeleted), "0104"},
		"waiters 1":          {waiters{300, 301}.encode(), "01ac02ad02"},
		"waits 1":            {encodeIDs([]job.ID{{1}, {2}}), "01020100000000000000000000000000000002000000000000000000000000000000"},
		"usage of an hour 1": {meter.encode(), "0102040608e7070c"},
		"usage of a job 1":   {used.encode(), "01ac020102040608e7070c0170016d020170016d02040608e7070c000000000200000002040608e7070c000000000000"},
		"iteration 1":        {iteration.encode(), "01038080d0e2c6bfce972f01630172016802040608e7070c0170016dac0201"},
		"budget 1":           {budget.encode(), "018080d0e2c6bfce972f0100000000000000000000000000000003036b3d76d00f0402"},
		"budget day 1":       {day.encode(), "01e70701"},
		"policy 1":           {policy.encode(), "018080d0e2c6bfce972f01000000000000000000000000000000016e01010171016b017601016180c0e285e36801"},
		"schedule 1":         {schedule.encode(), "0101730930202a202a202a202a03555443018094ebdc0302020171027b7d01030380e497d01280e0a596bb110180b09dc2df0101016b0176017580c0e285e368ac028080d0e2c6bfce972f8280d0e2c6bfce972f8480d0e2c6bfce972f8680d0e2c6bfce972f8880d0e2c6bfce972f0500000000000000000000000000000006"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s is\n%s, want\n%s", name, got, c.want)
		}
	}
}

// A store that was written before queues had limits opens, its jobs go on, and every
// new command works on it.
func TestStore_WrittenBeforeLimitsGoesOn(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	r.load(t, "testdata/store/before-limits.txt")
	r.index, r.now = 3, epoch+3*int64(time.Second)
	if jobs := r.audit(t); len(jobs) != 8 {
		t.Fatalf("%d jobs", len(jobs))
	}
	ns, now := job.Namespace{1}, r.now
	if j, err := ReadJob(r.store, ns, idOf("E")); err != nil || len(j.Errors) != 1 || j.Errors[0].Error != "boom" {
		t.Fatalf("a failed job of before: %+v, %v", j, err)
	}
	if res := r.do(t, now, &command.SetQueue{NS: ns, Queue: "q", Set: command.SetConcurrency, MaxConcurrency: 2}); res.Refusal != Accepted {
		t.Fatalf("limit answered %d", res.Refusal)
	}
	res := r.do(t, now, &command.Fetch{NS: ns, Jobs: []job.ID{idOf("A"), idOf("H")}, Worker: "w", Lease: time.Minute})
	if len(res.Grants) != 1 || len(res.Skipped) != 1 { // B is active from before.
		t.Fatalf("a limit of two with one active granted %+v", res)
	}
	if res := r.do(t, now, &command.Ack{NS: ns, ID: idOf("B")}); res.Refusal != Accepted {
		t.Fatalf("ack answered %d", res.Refusal)
	}
	again := &command.Enqueue{NS: ns, ID: idOf("I"), Queue: "q", IdempotencyKey: "i", IdempotencyFor: time.Hour}
	if res := r.do(t, now, again); !res.Replayed || res.ID != idOf("A") {
		t.Fatalf("a repeated enqueue answered %+v", res)
	}
	r.audit(t)
	if res := r.do(t, now, &command.DeleteQueue{NS: ns, Queue: "q"}); res.Refusal != Accepted {
		t.Fatalf("delete answered %d", res.Refusal)
	}
	if res := r.do(t, now, again); res.Replayed || res.ID != idOf("I") {
		t.Fatalf("an enqueue after the queue was deleted answered %+v", res)
	}
	if jobs := r.audit(t); len(jobs) != 2 { // I, and F of another queue.
		t.Fatalf("after the queue was deleted there are %d jobs", len(jobs))
	}
	r.sweepAll(t)
	r.audit(t)
	if rest := r.dump(t); bytes.Contains(rest, []byte(hex.EncodeToString([]byte(`{"ok":1}`)))) {
		t.Fatal("the result of a deleted job is still there")
	}
}

// A store of before those who wait for a job had rows, and callbacks a record of their
// own, goes on too.
func TestStore_WrittenBeforeRowsGoesOn(t *testing.T) {
	t.Parallel()
	r := newReplica(t)
	defer r.close(t)
	r.load(t, "testdata/store/before-rows.txt")
	r.index, r.now = 3, epoch+3*int64(time.Second)
	r.audit(t)
	now := r.now
	do := func(cmds ...command.Command) {
		t.Helper()
		for i, res := range r.apply(t, logEntry{now: now, cmds: cmds})[0].Results {
			if res.Refusal != Accepted {
				t.Fatalf("%T answered %d", cmds[i], res.Refusal)
			}
		}
		r.audit(t)
	}
	inState := func(id string, want job.State, blocked bool) {
		t.Helper()
		if h, err := ReadHead(r.store, groupNS, idOf(id)); err != nil || h.State != want || h.Blocked() != blocked {
			t.Fatalf("job %s is %s, blocked %v, %v", id, h.State, h.Blocked(), err)
		}
	}
	// U was waited for before, and is so by one more; T had ended.
	do(groupJob("Z", &command.EnqueueMore{DependsOn: []job.ID{idOf("U")}}))
	due, err := bothDue(r.store, 0, now+1, 10)
	if err != nil || len(due) != 1 || due[0].Kind != keys.DueDeliver {
		t.Fatalf("due are %v, %v", due, err)
	}
	do(&command.Fire{Due: due[0]})
	inState("W", job.Pending, false)
	inState("X", job.Pending, true)
	now += int64(time.Second)
	do(&command.Cancel{NS: groupNS, ID: idOf("U")})
	do(&command.Fire{Due: keys.Due{At: now, Kind: keys.DueDeliver, NS: groupNS, ID: idOf("U")}})
	inState("X", job.Dead, false)
	inState("Z", job.Dead, false)

	// B is the last of a sealed batch; C's and D's batches are open, f fired empty.
	do(&command.Ack{NS: groupNS, ID: idOf("B")})
	do(groupJob("E", &command.EnqueueMore{Batch: job.BatchID{'c'}}))
	do(&command.SealBatch{NS: groupNS, ID: job.BatchID{'c'}}, &command.SealBatch{NS: groupNS, ID: job.BatchID{'d'}})
	do(&command.Cancel{NS: groupNS, ID: idOf("C")}, &command.Cancel{NS: groupNS, ID: idOf("D")}, &command.Cancel{NS: groupNS, ID: idOf("E")})
	for id, want := range map[byte]string{
		'b': `"who":"me"`, 'c': `"total":2`, 'd': "", 'f': `"n":1`,
	} {
		b, err := ReadBatch(r.store, groupNS, job.BatchID{id})
		if err != nil || !b.Fired() || b.CallbackID.IsZero() != (want == "") {
			t.Fatalf("batch %c is %+v, %v", id, b, err)
		}
		if want == "" {
			continue
		}
		if body, err := ReadBody(r.store, groupNS, b.CallbackID); err != nil || !bytes.Contains(body.Payload, []byte(want)) {
			t.Fatalf("batch %c calls back with %s, %v", id, body.Payload, err)
		}
	}
}

// load puts rows that dump wrote into the store.
func (r *replica) load(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	txn := r.store.NewTxn()
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		k, v, _ := bytes.Cut(lines.Bytes(), []byte("="))
		key, errK := hex.DecodeString(string(k))
		value, errV := hex.DecodeString(string(v))
		if errK != nil || errV != nil {
			t.Fatalf("%s: %v, %v", lines.Text(), errK, errV)
		}
		txn.Set(key, value)
	}
	if _, err := txn.EndEntry(0, 3); err != nil {
		t.Fatal(err)
	}
	if err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
}
