package state

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
)

// wild makes commands that no server would propose: ids used twice, times at the
// ends of time, priorities and backoffs that do not exist.
func wild(t *rapid.T) command.Command {
	ns := job.Namespace{byte(rapid.IntRange(1, 2).Draw(t, "ns"))}
	id := job.ID{byte(rapid.IntRange(1, 3).Draw(t, "id"))}
	queue := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "queue")
	at := rapid.SampledFrom([]int64{0, 1, epoch, epoch + 1, epoch + 2, epoch + int64(time.Second), 1<<63 - 1}).Draw(t, "at")
	long := rapid.SampledFrom([]time.Duration{0, 1, time.Second, 1<<63 - 1}).Draw(t, "long")
	pos := keys.Position{Index: uint64(rapid.IntRange(0, 9).Draw(t, "index")), Ordinal: uint32(rapid.IntRange(0, 3).Draw(t, "ordinal"))}
	by := command.Holder{Peer: uint64(rapid.IntRange(0, 1).Draw(t, "peer"))}
	if rapid.IntRange(0, 4).Draw(t, "token") == 0 {
		by.Token = command.Token{Attempt: 1, Epoch: pos}
	}
	switch rapid.IntRange(0, 17).Draw(t, "command") {
	case 14, 15:
		return &command.SetQueue{
			NS: ns, Queue: queue, Set: command.Settings(rapid.SampledFrom([]byte{0, 1, 2, 4, 6, 255}).Draw(t, "set")),
			MaxConcurrency: rapid.SampledFrom([]uint32{0, 1, 1<<32 - 1}).Draw(t, "max"),
			Throttle:       command.Throttle{Limit: rapid.SampledFrom([]uint32{0, 1, 1<<32 - 1}).Draw(t, "limit"), Window: long},
		}
	case 16:
		return &command.DeleteQueue{NS: ns, Queue: queue}
	case 17:
		return &command.Sweep{
			NS: ns, Queue: queue, Jobs: []job.ID{id, id, {}}, Unique: []string{"u", ""}, Idempotency: []string{"i", "i"},
			// The end of the very generation is believed: only who walked over all of it says so.
			Done: rapid.SampledFrom([]uint64{0, 1<<64 - 1}).Draw(t, "done"),
		}
	case 0, 1:
		return &command.Enqueue{
			NS: ns, ID: id, Queue: queue, Priority: job.Priority(rapid.SampledFrom([]byte{0, 2, 3, 255}).Draw(t, "priority")),
			Retry:       command.RetryPolicy{MaxRetries: uint32(rapid.IntRange(0, 2).Draw(t, "retries")), Backoff: job.Backoff(rapid.SampledFrom([]byte{0, 3, 9}).Draw(t, "backoff")), BaseDelay: long, MaxDelay: long},
			ScheduledAt: at, UniqueKey: rapid.SampledFrom([]string{"", "u"}).Draw(t, "unique"), UniqueFor: long,
			IdempotencyKey: rapid.SampledFrom([]string{"", "i"}).Draw(t, "idempotency"), IdempotencyFor: long,
		}
	case 2, 3, 4:
		return &command.Fetch{
			NS: ns, Jobs: []job.ID{id, {1}, id}, Lease: long,
			Floors: []command.Floor{{Queue: queue, Priority: job.Priority(rapid.SampledFrom([]byte{0, 3, 255}).Draw(t, "floor")), Pos: pos}},
		}
	case 5:
		return &command.Ack{NS: ns, ID: id, By: by, Result: []byte("1")}
	case 6:
		return &command.Fail{NS: ns, ID: id, By: by, Error: "e", Release: rapid.Bool().Draw(t, "release")}
	case 7:
		return &command.Heartbeat{NS: ns, ID: id, By: by, Progress: []byte("1"), Checkpoint: []byte("2")}
	case 8:
		return &command.Extend{NS: ns, ID: id, Epoch: pos, Until: at}
	case 9, 10:
		return &command.Fire{Due: keys.Due{At: at, Kind: keys.DueKind(rapid.IntRange(1, 5).Draw(t, "kind")), NS: ns, ID: id}}
	case 11:
		return &command.Pause{NS: ns, Queue: queue, Paused: rapid.Bool().Draw(t, "pause")}
	case 12:
		return &command.TrimEvents{NS: ns, Before: pos.Index}
	default:
		return rapid.SampledFrom([]command.Command{
			&command.Cancel{NS: ns, ID: id}, &command.Retry{NS: ns, ID: id}, &command.Delete{NS: ns, ID: id},
		}).Draw(t, "admin")
	}
}

// Commands that make no sense are answered, never a panic: one would stop every
// replica at the same entry, for ever. And the answer is the same on all of them.
func TestApply_NonsenseIsAnswered(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { gatheredLikeOneByOne(t, 2*time.Second, wild) })
}

// gatheredLikeOneByOne applies entries of drawn commands, between which so much time may
// pass, one by one and together: the states are the same.
func gatheredLikeOneByOne(t *rapid.T, pass time.Duration, draw func(*rapid.T) command.Command) {
	one, two := newReplica(t), newReplica(t)
	defer one.close(t)
	defer two.close(t)
	var log []logEntry
	for range rapid.IntRange(1, 12).Draw(t, "entries") {
		e := logEntry{now: one.now + rapid.SampledFrom([]int64{0, int64(pass)}).Draw(t, "pass")}
		for range rapid.IntRange(1, 6).Draw(t, "commands") {
			e.cmds = append(e.cmds, draw(t))
		}
		one.apply(t, e)
		log = append(log, e)
	}
	two.apply(t, log...)
	if one.digest != two.digest || !bytes.Equal(one.dump(t), two.dump(t)) {
		t.Fatalf("one by one:\n%s\ngathered:\n%s", one.dump(t), two.dump(t))
	}
}
