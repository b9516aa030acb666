package keys

import (
	"bytes"
	"cmp"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

var space = In([4]byte{0, 0, 0, 2})

func drawID(t *rapid.T, label string) [16]byte {
	// Few values, and extreme bytes, so that neighbours and prefixes meet.
	b := rapid.SampledFrom([]byte{0, 1, 0x7f, 0xfe, 0xff})
	return [16]byte(rapid.SliceOfN(b, 16, 16).Draw(t, label))
}

func drawNS(t *rapid.T) job.Namespace { return drawID(t, "ns") }
func drawJob(t *rapid.T) job.ID       { return drawID(t, "id") }

func drawName(t *rapid.T, label string) string {
	if rapid.Bool().Draw(t, label+" short") {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xff}), 0, 4).Draw(t, label))
	}
	return string(rapid.SliceOfN(rapid.Byte(), 0, 255).Draw(t, label))
}

func drawPos(t *rapid.T) Position {
	return Position{
		Index:   rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 300), rapid.Just(uint64(1<<64-1))).Draw(t, "index"),
		Ordinal: rapid.OneOf(rapid.Uint32(), rapid.Uint32Range(0, 300), rapid.Just(uint32(1<<32-1))).Draw(t, "ordinal"),
	}
}

func within(key, from, to []byte) bool {
	return bytes.Compare(from, key) <= 0 && bytes.Compare(key, to) < 0
}

func TestReady_ByteOrderIsPriorityThenPosition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ns, queue := drawNS(t), drawName(t, "queue")
		p, q := job.Priority(rapid.IntRange(0, 2).Draw(t, "p")), job.Priority(rapid.IntRange(0, 2).Draw(t, "q"))
		a, b := drawPos(t), drawPos(t)
		want := cmp.Compare(p, q)
		if want == 0 && a != b {
			want = 1
			if a.Less(b) {
				want = -1
			}
		}
		ka, kb := space.Ready(ns, queue, p, a), space.Ready(ns, queue, q, b)
		if got := bytes.Compare(ka, kb); got != want {
			t.Fatalf("%x and %x compare %d, want %d", ka, kb, got, want)
		}
		if got, err := space.ReadyPosition(ka); err != nil || got != a {
			t.Fatalf("position %v, %v, want %v", got, err, a)
		}
	})
}

func TestPosition_LessIsATotalOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPos(t), drawPos(t)
		if a.Less(b) && b.Less(a) || a.Less(a) || a != b && !a.Less(b) && !b.Less(a) {
			t.Fatalf("%v and %v", a, b)
		}
	})
}

func TestDue_ByteOrderIsTimeAndComesBack(t *testing.T) {
	t.Parallel()
	draw := func(t *rapid.T) Due {
		return Due{
			At: rapid.Int64Range(0, 1<<63-1).Draw(t, "at"), Kind: DueKind(rapid.IntRange(1, int(dueKindsEnd)-1).Draw(t, "kind")),
			NS: drawNS(t), ID: drawJob(t),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t), draw(t)
		ka, kb := space.Due(a), space.Due(b)
		if got := bytes.Compare(ka, kb); a.Kind.OnLeaseTime() == b.Kind.OnLeaseTime() && a.At != b.At && got != cmp.Compare(a.At, b.At) {
			t.Fatalf("%x and %x compare %d", ka, kb, got)
		}
		if (a == b) != bytes.Equal(ka, kb) {
			t.Fatalf("%+v and %+v have keys %x and %x", a, b, ka, kb)
		}
		if got, err := space.ParseDue(ka); err != nil || got != a {
			t.Fatalf("parsed %+v, %v, want %+v", got, err, a)
		}
		from, to := min(a.At, b.At), max(a.At, b.At)
		lower, upper := space.DueBetween(a.Kind.OnLeaseTime(), from, to)
		for d, k := range map[Due][]byte{a: ka, b: kb} {
			if within(k, lower, upper) != (d.Kind.OnLeaseTime() == a.Kind.OnLeaseTime() && d.At >= from && d.At < to) {
				t.Fatalf("%+v is on the wrong side of [%d, %d)", d, from, to)
			}
			if all, end := space.DueAll(); !within(k, all, end) {
				t.Fatalf("%+v is outside of its family", d)
			}
		}
	})
}

func TestDueBetween_NegativeTimesAreZero(t *testing.T) {
	t.Parallel()
	lower, upper := space.DueBetween(true, -5, -1)
	if !bytes.Equal(lower, upper) {
		t.Fatalf("span %x to %x", lower, upper)
	}
}

func TestEvents_ByteOrderIsThatOfTheirNumbersAndComesBack(t *testing.T) {
	t.Parallel()
	ns := job.Namespace{3}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPos(t).Index, drawPos(t).Index
		if got := bytes.Compare(space.Events(ns, a), space.Events(ns, b)); got != cmp.Compare(a, b) {
			t.Fatalf("%d and %d compare %d", a, b, got)
		}
		from, to := space.EventsFrom(ns, a)
		if within(space.Events(ns, b), from, to) != (b >= a) {
			t.Fatalf("events from %d on and number %d", a, b)
		}
		if from, to = space.EventsBetween(ns, 0, a); within(space.Events(ns, b), from, to) != (b < a) {
			t.Fatalf("events before %d and number %d", a, b)
		}
		if got, err := space.EventNumber(space.Events(ns, a)); err != nil || got != a {
			t.Fatalf("number %d, %v, want %d", got, err, a)
		}
	})
}

// A span holds exactly what it is for: no queue, priority, job, family,
// namespace or group inside another's, whatever bytes the names have (law 10, D6, D17).
func TestSpans_HoldTheirOwnAndNothingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawRow(t), drawRow(t)
		type span struct {
			from, to []byte
			same     bool // Whether b belongs into a's span.
		}
		sameNS := a.ns == b.ns
		spans := map[string]span{}
		from, to := space.ReadyFrom(a.ns, a.queue, a.priority, a.pos)
		spans["ready"] = span{from, to, sameNS && b.family == ready && b.queue == a.queue && b.priority == a.priority && !b.pos.Less(a.pos)}
		from, to = space.AttemptErrors(a.ns, a.id)
		spans["errors"] = span{from, to, sameNS && b.family == attemptErrs && b.id == a.id}
		for _, f := range []byte{QueueConfig, QueueCounts} {
			from, to = space.Queues(a.ns, f)
			spans["queues "+string(f)] = span{from, to, sameNS && b.family == f}
		}
		from, to = space.NamespaceSpan(a.ns)
		spans["namespace"] = span{from, to, sameNS && !b.ofGroup()}
		from, to = space.Heads(a.ns, a.id)
		spans["heads"] = span{from, to, sameNS && b.family == Head && (a.id.IsZero() || bytes.Compare(a.id[:], b.id[:]) < 0)}
		from, to = space.Namespaces(a.ns)
		spans["namespaces"] = span{from, to, !b.ofGroup() && bytes.Compare(a.ns[:], b.ns[:]) <= 0}
		for _, f := range []byte{Unique, Idempotency} {
			from, to = space.Locks(a.ns, f, a.queue, a.name)
			spans["locks "+string(f)] = span{from, to, sameNS && b.family == f && b.queue == a.queue && b.name >= a.name}
		}
		from, to = space.ReadyOf(a.ns, a.queue)
		spans["all ready"] = span{from, to, sameNS && b.family == ready && b.queue == a.queue}
		from, to = space.Sweeps()
		spans["sweeps"] = span{from, to, b.family == familySweep}
		from, to = space.OpenReadings(a.ns)
		spans["open readings"] = span{from, to, b.family == familyOpen && bytes.Compare(a.ns[:], b.ns[:]) <= 0}
		from, to = space.Readings(a.pos.Index, a.ns)
		later := b.pos.Index > a.pos.Index || b.pos.Index == a.pos.Index && bytes.Compare(a.ns[:], b.ns[:]) <= 0
		spans["readings"] = span{from, to, b.family == familyReading && later}
		from, to = space.ReadingsBefore(a.pos.Index)
		spans["old readings"] = span{from, to, b.family == familyReading && b.pos.Index < a.pos.Index}
		from, to = space.DueAll()
		spans["due"] = span{from, to, b.family == familyDue || b.family == familyDueLease}
		from, to = space.EventsFrom(a.ns, 0)
		spans["events"] = span{from, to, sameNS && b.family == eventRow}
		from, to = space.All()
		spans["group"] = span{from, to, true}
		for name, s := range spans {
			if within(b.key(space), s.from, s.to) != s.same {
				t.Fatalf("%s of %+v and %+v: want inside %v", name, a, b, s.same)
			}
		}
		if next := In([4]byte{0, 0, 0, 3}); within(b.key(next), spans["group"].from, spans["group"].to) {
			t.Fatalf("%+v of the next group is in the span of this one", b)
		}
		if (a == b.like(a)) != bytes.Equal(a.key(space), b.key(space)) {
			t.Fatalf("%+v and %+v have keys %x and %x", a, b, a.key(space), b.key(space))
		}
	})
}

// row is anything that has a key.
type row struct {
	family   byte
	ns       job.Namespace
	id       job.ID
	queue    string
	name     string
	priority job.Priority
	pos      Position
}

// ofGroup: the row is not under its namespace.
func (r row) ofGroup() bool {
	return r.family == familyDue || r.family == familyDueLease || r.family == familySweep || r.family == familyOpen || r.family == familyReading
}

func drawRow(t *rapid.T) row {
	return row{
		family: rapid.SampledFrom([]byte{
			Body, Head, ready, attemptErrs, Result, Checkpoint, Progress, Unique, Idempotency, QueueConfig, QueueCounts, eventMark, familyDue, familyDueLease, eventRow, familySweep,
			Waiters, dependent, familyOpen, familyReading,
		}).Draw(t, "family"),
		ns: drawNS(t), id: drawJob(t), queue: drawName(t, "queue"), name: drawName(t, "key"),
		priority: job.Priority(rapid.IntRange(0, 2).Draw(t, "priority")), pos: drawPos(t),
	}
}

func (r row) key(s Space) []byte {
	switch r.family {
	case ready:
		return s.Ready(r.ns, r.queue, r.priority, r.pos)
	case attemptErrs:
		return s.AttemptError(r.ns, r.id, r.pos)
	case dependent:
		return s.Dependent(r.ns, r.id, r.pos.Index)
	case Unique, Idempotency:
		return s.Lock(r.ns, r.family, r.queue, r.name)
	case QueueConfig, QueueCounts:
		return s.Queue(r.ns, r.family, r.queue)
	case eventMark:
		return s.EventMark(r.ns)
	case familyDue:
		return s.Due(Due{At: int64(r.pos.Index >> 1), Kind: DueHold, NS: r.ns, ID: r.id})
	case familyDueLease:
		return s.Due(Due{At: int64(r.pos.Index >> 1), Kind: DueLease, NS: r.ns, ID: r.id})
	case eventRow:
		return s.Events(r.ns, r.pos.Index)
	case familySweep:
		return s.Sweep(r.ns, r.queue)
	case familyOpen:
		return s.OpenReading(r.ns)
	case familyReading:
		return s.Reading(r.pos.Index, r.ns)
	default:
		return s.Job(r.ns, r.family, r.id)
	}
}

// like is r with the fields that do not stand in its family's key taken from a,
// so that equal rows are rows with equal keys.
func (r row) like(a row) row {
	if r.family != a.family {
		return r
	}
	out := a
	out.family, out.ns = r.family, r.ns
	switch r.family {
	case ready:
		out.queue, out.priority, out.pos = r.queue, r.priority, r.pos
	case attemptErrs:
		out.id, out.pos = r.id, r.pos
	case dependent:
		out.id, out.pos.Index = r.id, r.pos.Index
	case Unique, Idempotency:
		out.queue, out.name = r.queue, r.name
	case QueueConfig, QueueCounts, familySweep:
		out.queue = r.queue
	case eventMark, familyOpen: // The namespace alone.
	case familyDue, familyDueLease:
		out.id = r.id
		if r.pos.Index>>1 != a.pos.Index>>1 {
			out.pos = r.pos
		}
	case eventRow, familyReading:
		out.pos.Index = r.pos.Index
	default:
		out.id = r.id
	}
	return out
}

func TestQueueName_OfEveryLengthComesBack(t *testing.T) {
	t.Parallel()
	for n := range 256 {
		name := strings.Repeat("\xff", n)
		for _, f := range []byte{QueueConfig, QueueCounts} {
			got, err := space.QueueName(space.Queue(job.Namespace{9}, f, name))
			if err != nil || got != name {
				t.Fatalf("name of %d bytes: %q, %v", n, got, err)
			}
		}
	}
}

// A span that ends with 0xff carries over: nothing of the next queue is in it.
func TestLocks_AndSweepsComeBackWithEveryName(t *testing.T) {
	t.Parallel()
	for n := range 256 {
		name := strings.Repeat("\xff", n)
		if ns, got, err := space.ParseSweep(space.Sweep(job.Namespace{9}, name)); err != nil || got != name || ns != (job.Namespace{9}) {
			t.Fatalf("sweep of a name of %d bytes: %s %q, %v", n, ns, got, err)
		}
		key := space.Lock(job.Namespace{9}, Unique, name, "a key")
		if got, err := space.LockKey(key); err != nil || got != "a key" {
			t.Fatalf("lock in a queue of %d bytes: %q, %v", n, got, err)
		}
		if from, to := space.Locks(job.Namespace{9}, Unique, name, ""); !within(key, from, to) {
			t.Fatalf("the locks of a queue of %d bytes end at %x", n, to)
		}
	}
}

func TestNames_BeyondTheirLengthByteAreABug(t *testing.T) {
	t.Parallel()
	mustPanic(t, func() { space.Queue(job.Namespace{}, QueueConfig, strings.Repeat("a", 256)) })
	mustPanic(t, func() { space.Lock(job.Namespace{}, Unique, strings.Repeat("a", 256), "k") })
	mustPanic(t, func() { space.Due(Due{At: -1, Kind: DueLease}) })
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}

// FuzzParse reads arbitrary keys: an error, or a value whose key is the input.
func FuzzParse(f *testing.F) {
	f.Add(space.Due(Due{At: 1, Kind: DueLease, NS: job.Namespace{1}, ID: job.ID{2}}))
	f.Add(space.Events(job.Namespace{1}, 7))
	f.Add(space.Ready(job.Namespace{1}, "q", job.High, Position{1, 2}))
	f.Add(space.Queue(job.Namespace{1}, QueueCounts, "queue"))
	f.Add(space.Sweep(job.Namespace{1}, "queue"))
	f.Add(space.Lock(job.Namespace{1}, Unique, "queue", "key"))
	f.Add(space.OpenReading(job.Namespace{1}))
	f.Add(space.Reading(7, job.Namespace{1}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, key []byte) {
		own := len(key) >= 4 && bytes.Equal(key[:4], space.prefix[:])
		if d, err := space.ParseDue(key); err != nil {
			mustBeKeyError(t, err)
		} else if own && !bytes.Equal(space.Due(d), key) {
			t.Fatalf("due %+v from %x", d, key)
		}
		if n, err := space.EventNumber(key); err != nil {
			mustBeKeyError(t, err)
		} else if own && key[4] == familyNamespace && !bytes.Equal(space.Events(job.Namespace(key[5:21]), n), key) {
			t.Fatalf("event %d from %x", n, key)
		}
		if _, err := space.ReadyPosition(key); err != nil {
			mustBeKeyError(t, err)
		}
		if ns, name, err := space.ParseSweep(key); err != nil {
			mustBeKeyError(t, err)
		} else if own && !bytes.Equal(space.Sweep(ns, name), key) {
			t.Fatalf("sweep of %s %q from %x", ns, name, key)
		}
		if ns, err := space.OpenReadingOf(key); err != nil {
			mustBeKeyError(t, err)
		} else if own && !bytes.Equal(space.OpenReading(ns), key) {
			t.Fatalf("open reading of %s from %x", ns, key)
		}
		if hour, ns, err := space.ReadingOf(key); err != nil {
			mustBeKeyError(t, err)
		} else if own && !bytes.Equal(space.Reading(hour, ns), key) {
			t.Fatalf("reading of %s in %d from %x", ns, hour, key)
		}
		if name, err := space.LockKey(key); err != nil {
			mustBeKeyError(t, err)
		} else if n := int(key[22]); own && key[4] == familyNamespace &&
			!bytes.Equal(space.Lock(job.Namespace(key[5:21]), key[21], string(key[23:23+n]), name), key) {
			t.Fatalf("lock %q from %x", name, key)
		}
		if name, err := space.QueueName(key); err != nil {
			mustBeKeyError(t, err)
		} else if own && key[4] == familyNamespace && !bytes.Equal(space.Queue(job.Namespace(key[5:21]), key[21], name), key) {
			t.Fatalf("queue %q from %x", name, key)
		}
	})
}

func mustBeKeyError(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrKey) {
		t.Fatalf("error %v", err)
	}
}

func TestUsage_IsReadBackWhateverTheNamesAre(t *testing.T) {
	t.Parallel()
	s := In([4]byte{1})
	for _, names := range [][3]string{{"q", "p", "m"}, {"q", "", ""}, {"q", "p/q", "m\x00m"}} {
		hour, queue, provider, model, err := s.UsageOf(s.Usage(job.Namespace{2}, 7, names[0], names[1], names[2]))
		if err != nil || hour != 7 || [3]string{queue, provider, model} != names {
			t.Errorf("%q is read back as %d %q %q %q, %v", names, hour, queue, provider, model, err)
		}
	}
	for _, key := range [][]byte{nil, s.Usage(job.Namespace{2}, 7, "queue", "provider", "")[:34], s.Events(job.Namespace{2}, 1)} {
		if _, _, _, _, err := s.UsageOf(key); !errors.Is(err, ErrKey) {
			t.Errorf("%x: %v", key, err)
		}
	}
}
