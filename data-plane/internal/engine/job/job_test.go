package job

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"
)

func drawID(t *rapid.T) ID { return ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")) }

func TestID_TextComesBackAndIsAULID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := drawID(t)
		if got, err := ParseID(id.String()); err != nil || got != id {
			t.Fatalf("%s came back as %s, %v", id, got, err)
		}
		if got, err := ParseNamespace(Namespace(id).String()); err != nil || got != Namespace(id) {
			t.Fatalf("%s came back as %s, %v", Namespace(id), got, err)
		}
		if want := "job_" + ulid.ULID(id).String(); id.String() != want {
			t.Fatalf("text %s, the library says %s", id, want)
		}
	})
}

func TestID_TextOrderIsByteOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawID(t), drawID(t)
		if n := rapid.IntRange(0, 16).Draw(t, "common"); n > 0 {
			copy(b[:n], a[:n])
		}
		if strings.Compare(a.String(), b.String()) != bytes.Compare(a[:], b[:]) {
			t.Fatalf("%s and %s sort differently than %x and %x", a, b, a[:], b[:])
		}
	})
}

// There is one text for an id: no lower case, no look-alike letters, no overflow.
func TestParseID_Refuses(t *testing.T) {
	t.Parallel()
	good := ID{1, 2, 3}.String()
	for _, s := range []string{
		"", "job_", good[4:], "ns_" + good[4:], "JOB_" + good[4:], good + "0", good[:len(good)-1], strings.ToLower(good), " " + good,
		"job_8" + good[5:], "job_Z" + good[5:], good[:10] + "I" + good[11:], good[:10] + "L" + good[11:], good[:10] + "O" + good[11:],
		good[:10] + "U" + good[11:], good[:10] + "-" + good[11:], good[:10] + "\x00" + good[11:], good[:9] + "é" + good[11:],
	} {
		if id, err := ParseID(s); !errors.Is(err, ErrID) {
			t.Errorf("%q is %x, %v", s, id, err)
		} else if !id.IsZero() {
			t.Errorf("%q is refused with %x", s, id)
		}
	}
	if _, err := ParseNamespace(good); !errors.Is(err, ErrID) {
		t.Errorf("a job's id is a namespace: %v", err)
	}
	if max := (ID(bytes.Repeat([]byte{0xff}, 16))).String(); max != "job_7"+strings.Repeat("Z", 25) {
		t.Errorf("the largest id is %s", max)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add(ID{1, 2, 3}.String())
	f.Add("job_7ZZZZZZZZZZZZZZZZZZZZZZZZZ")
	f.Add("job_80000000000000000000000000")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err == nil && id.String() != s {
			t.Fatalf("%q is read as %s", s, id)
		}
		if err != nil && !errors.Is(err, ErrID) {
			t.Fatalf("error %v", err)
		}
	})
}

func TestStates_EachIsWaitingLeasedOrTerminal(t *testing.T) {
	t.Parallel()
	want := map[State]struct {
		name             string
		leased, terminal bool
	}{
		Pending: {"pending", false, false}, Scheduled: {"scheduled", false, false}, Active: {"active", true, false},
		Cancelling: {"cancelling", true, false}, Retrying: {"retrying", false, false}, Held: {"held", false, false},
		Completed: {"completed", false, true}, Dead: {"dead", false, true}, Cancelled: {"cancelled", false, true},
	}
	if len(States()) != len(want) {
		t.Fatalf("%d states, want %d", len(States()), len(want))
	}
	for i, s := range States() {
		w, ok := want[s]
		if !ok || int(s) != i+1 || !s.Valid() || s.String() != w.name || s.Leased() != w.leased || s.Terminal() != w.terminal {
			t.Errorf("state %d is %s, leased %v, terminal %v", s, s, s.Leased(), s.Terminal())
		}
	}
	for _, s := range []State{0, statesEnd, 255} {
		if s.Valid() || s.Leased() || s.Terminal() || !strings.HasPrefix(s.String(), "state(") {
			t.Errorf("state %d is %s", uint8(s), s)
		}
	}
}

func TestWords_ComeBack(t *testing.T) {
	t.Parallel()
	for p := Priority(0); p < Priorities; p++ {
		if got, ok := ParsePriority(p.String()); !ok || got != p {
			t.Errorf("%s is read as %s, %v", p, got, ok)
		}
	}
	for b := BackoffNone; b <= BackoffExponential; b++ {
		if got, ok := ParseBackoff(b.String()); !ok || got != b {
			t.Errorf("%s is read as %s, %v", b, got, ok)
		}
	}
	for _, s := range []string{"", "low"} {
		if p, ok := ParsePriority(s); !ok || p != Normal {
			t.Errorf("priority %q is %s, %v", s, p, ok)
		}
	}
	if b, ok := ParseBackoff(""); !ok || b != BackoffExponential {
		t.Errorf("no backoff is %s, %v", b, ok)
	}
	for _, s := range []string{"Normal", "unknown", " none", "priority(3)"} {
		if _, ok := ParsePriority(s); ok {
			t.Errorf("priority %q is known", s)
		}
		if _, ok := ParseBackoff(s); ok {
			t.Errorf("backoff %q is known", s)
		}
	}
	if Priority(9).String() != "priority(9)" || Backoff(9).String() != "unknown" {
		t.Errorf("strangers are %s and %s", Priority(9), Backoff(9))
	}
}

func TestDelay_Table(t *testing.T) {
	t.Parallel()
	const far, s = time.Duration(math.MaxInt64), time.Second
	for _, c := range []struct {
		kind        Backoff
		attempt     uint32
		base, limit time.Duration
		want        time.Duration
	}{
		{BackoffNone, 1, s, far, 0},
		{BackoffNone, 9, s, far, 0},
		{BackoffFixed, 1, s, far, s},
		{BackoffFixed, 9, s, far, s},
		{BackoffFixed, 1, 10 * s, s, s},
		{BackoffLinear, 1, s, far, s},
		{BackoffLinear, 2, s, far, 2 * s},
		{BackoffLinear, 7, s, far, 7 * s},
		{BackoffLinear, 7, s, 5 * s, 5 * s},
		{BackoffLinear, math.MaxUint32, time.Hour, far, far},
		{BackoffLinear, math.MaxUint32, time.Hour, s, s},
		{BackoffExponential, 1, s, far, s},
		{BackoffExponential, 2, s, far, 2 * s},
		{BackoffExponential, 3, s, far, 4 * s},
		{BackoffExponential, 10, s, far, 512 * s},
		{BackoffExponential, 10, s, time.Minute, time.Minute},
		{BackoffExponential, 63, 1, far, 1 << 62},
		{BackoffExponential, 64, 1, far, far},
		{BackoffExponential, 63, 2, far, far},
		{BackoffExponential, 64, s, 10 * s, 10 * s},
		{BackoffExponential, 65, s, 10 * s, 10 * s},
		{BackoffExponential, math.MaxUint32, 1, far, far},
		{BackoffExponential, 0, s, far, 0},
		{BackoffFixed, 1, 0, far, 0},
		{BackoffFixed, 1, -s, far, 0},
		{BackoffExponential, 5, s, 0, 0},
	} {
		if got := c.kind.Delay(c.attempt, c.base, c.limit); got != c.want {
			t.Errorf("%s after attempt %d, base %s, limit %s: %s, want %s", c.kind, c.attempt, c.base, c.limit, got, c.want)
		}
	}
}

// A later attempt never waits less, and nothing passes the limit or zero (R-C6).
func TestDelay_GrowsAndSaturates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := Backoff(rapid.IntRange(0, 3).Draw(t, "kind"))
		base := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "base"))
		limit := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "limit"))
		attempt := rapid.OneOf(rapid.Uint32Range(1, 100), rapid.Uint32Range(1, math.MaxUint32-1)).Draw(t, "attempt")
		d, next := kind.Delay(attempt, base, limit), kind.Delay(attempt+1, base, limit)
		if d < 0 || d > limit || next < d {
			t.Fatalf("%s, %s after attempts %d, %d", d, next, attempt, attempt+1)
		}
	})
}

func TestJitter_ShortensByLessThanAFifthAndIsAFunction(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "delay"))
		id, attempt := drawID(t), rapid.Uint32().Draw(t, "attempt")
		got := Jitter(d, id, attempt)
		if got > d || got < d-d/5 {
			t.Fatalf("%s became %s", d, got)
		}
		if d > 0 && got == 0 {
			t.Fatalf("%s became nothing", d)
		}
		if again := Jitter(d, id, attempt); again != got {
			t.Fatalf("%s, then %s", got, again)
		}
	})
}

// Jobs that failed together must not come back together.
func TestJitter_SpreadsNeighbours(t *testing.T) {
	t.Parallel()
	const n, slots = 1000, 10
	var buckets [slots]int
	seen := map[time.Duration]bool{}
	for i := range n {
		d := Jitter(10*time.Second, ID{1, 2, 3, 14: byte(i >> 8), 15: byte(i)}, 1)
		buckets[min(int((d-8*time.Second)*slots/(2*time.Second)), slots-1)]++
		seen[d] = true
	}
	for i, b := range buckets {
		if b < n/slots/2 {
			t.Errorf("slot %d has %d of %d delays: %v", i, b, n, buckets)
		}
	}
	if len(seen) < n*9/10 {
		t.Errorf("%d different delays of %d jobs", len(seen), n)
	}
}
