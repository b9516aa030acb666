package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/keys"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

// samples is one command of every kind with every field set.
func samples() []Command {
	ns := job.Namespace{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	id := job.ID{0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, 0}
	by := Holder{Token: Token{Attempt: 3, Epoch: keys.Position{Index: 300, Ordinal: 2}}, Worker: "worker-1", Peer: 0xdeadbeefcafe}
	return []Command{
		&Enqueue{
			NS: ns, ID: id, Queue: "emails", Payload: []byte(`{"to":"a"}`), Checkpoint: []byte(`{"page":2}`), Priority: job.High,
			Retry:       RetryPolicy{MaxRetries: 7, Backoff: job.BackoffLinear, BaseDelay: 2 * time.Second, MaxDelay: time.Minute},
			ScheduledAt: 1_700_000_000_123_456_789, Tags: []Tag{{"a", "1"}, {"b", ""}}, UniqueKey: "u", UniqueFor: time.Hour,
			IdempotencyKey: "i", IdempotencyFor: 24 * time.Hour, TraceParent: "00-01-02-03",
		},
		&Fetch{
			NS: ns, Jobs: []job.ID{id, {1}}, Worker: "worker-1", Hostname: "host-1", Peer: 0xdeadbeefcafe, Lease: 30 * time.Second,
			Floors: []Floor{{Queue: "emails", Priority: job.Normal, Pos: keys.Position{Index: 12, Ordinal: 34}}},
		},
		&Ack{NS: ns, ID: id, By: by, Result: []byte(`{"ok":true}`), Checkpoint: []byte(`1`)},
		&Fail{NS: ns, ID: id, By: by, Error: "boom", Backtrace: "at line 1", Release: true},
		&Heartbeat{NS: ns, ID: id, By: by, Progress: []byte(`{"p":1}`), Checkpoint: []byte(`2`)},
		&Extend{NS: ns, ID: id, Epoch: keys.Position{Index: 300, Ordinal: 2}, Until: 1_700_000_060_000_000_000},
		&Fire{Due: keys.Due{At: 1_700_000_060_000_000_000, Kind: keys.DueLease, NS: ns, ID: id}},
		&Pause{NS: ns, Queue: "emails", Paused: true},
		&Cancel{NS: ns, ID: id},
		&Retry{NS: ns, ID: id},
		&Delete{NS: ns, ID: id},
		&TrimFeed{Before: 1 << 40},
	}
}

func nameOf(c Command) string { return reflect.TypeOf(c).Elem().Name() }

const golden = "testdata/golden-v1.txt"

// The bytes of version 1 are in logs on disks: they never change, and they are
// read for ever. A change of a command's fields needs a new kind or version.
func TestGolden_Version1BytesAreFixedForEver(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for _, c := range append(samples(), zeros()...) {
		fmt.Fprintf(&want, "%s %x\n", nameOf(c), Encode([]Command{c}))
	}
	fmt.Fprintf(&want, "All %x\n", Encode(samples()))
	if *rewrite {
		if err := os.WriteFile(golden, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(file) != want.String() {
		t.Fatalf("encodings changed.\nfile:\n%s\nnow:\n%s", file, want.String())
	}
	for line := range strings.Lines(string(file)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cmds, err := Decode(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := Encode(cmds); !bytes.Equal(got, b) {
			t.Fatalf("%s: %x read and written again is %x", name, b, got)
		}
	}
	cmds, err := Decode(Encode(samples()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(cmds, samples()) {
		t.Fatalf("decoded %+v, want %+v", cmds, samples())
	}
}

// zeros is one empty command of every kind that newCommand knows.
func zeros() []Command {
	var out []Command
	for k := kind(1); ; k++ {
		c, err := newCommand(k)
		if err != nil {
			return out
		}
		out = append(out, c)
	}
}

func TestSamples_NameEveryKindOnceWithEveryFieldSet(t *testing.T) {
	t.Parallel()
	all := zeros()
	got := samples()
	if len(got) != len(all) {
		t.Fatalf("%d samples of %d kinds", len(got), len(all))
	}
	for i, c := range got {
		if c.kind() != kind(i+1) || c.kind() != all[i].kind() {
			t.Errorf("%s has kind %d at place %d", nameOf(c), c.kind(), i)
		}
		v := reflect.ValueOf(c).Elem()
		for f := range v.NumField() {
			if v.Field(f).IsZero() {
				t.Errorf("%s.%s is not set", nameOf(c), v.Type().Field(f).Name)
			}
		}
	}
}

func drawCommand(t *rapid.T) Command {
	ns := job.Namespace(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "ns"))
	draw16 := func(name string) job.ID { return job.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name)) }
	pos := func() keys.Position {
		return keys.Position{Index: rapid.Uint64().Draw(t, "index"), Ordinal: rapid.Uint32().Draw(t, "ordinal")}
	}
	text := func(name string) string { return string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, name)) }
	queue := func() string { return string(rapid.SliceOfN(rapid.Byte(), 0, 255).Draw(t, "queue")) }
	opaque := func(name string) []byte {
		if b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, name); len(b) > 0 {
			return b
		}
		return nil
	}
	long := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(0, 1<<63-1).Draw(t, name))
	}
	at := func() int64 { return rapid.Int64Range(0, 1<<63-1).Draw(t, "at") }
	by := func() Holder {
		return Holder{Token: Token{rapid.Uint32().Draw(t, "attempt"), pos()}, Worker: text("worker"), Peer: rapid.Uint64().Draw(t, "peer")}
	}
	id := draw16("id")
	switch rapid.IntRange(1, len(samples())).Draw(t, "kind") {
	case int(kindEnqueue):
		c := &Enqueue{
			NS: ns, ID: id, Queue: queue(), Payload: opaque("payload"), Checkpoint: opaque("checkpoint"),
			Priority: job.Priority(rapid.Byte().Draw(t, "priority")), ScheduledAt: at(),
			Retry: RetryPolicy{
				MaxRetries: rapid.Uint32().Draw(t, "retries"), Backoff: job.Backoff(rapid.Byte().Draw(t, "backoff")),
				BaseDelay: long("base"), MaxDelay: long("max"),
			},
			UniqueKey: text("unique"), UniqueFor: long("unique for"), IdempotencyKey: text("idempotency"),
			IdempotencyFor: long("idempotency for"), TraceParent: text("trace"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "tags") {
			c.Tags = append(c.Tags, Tag{text("tag"), text("value")})
		}
		return c
	case int(kindFetch):
		c := &Fetch{
			NS: ns, Jobs: []job.ID{}, Worker: text("worker"), Hostname: text("host"), Peer: rapid.Uint64().Draw(t, "peer"),
			Lease: long("lease"), Floors: []Floor{},
		}
		for range rapid.IntRange(0, 3).Draw(t, "jobs") {
			c.Jobs = append(c.Jobs, draw16("job"))
		}
		for range rapid.IntRange(0, 3).Draw(t, "floors") {
			c.Floors = append(c.Floors, Floor{queue(), job.Priority(rapid.Byte().Draw(t, "priority")), pos()})
		}
		return c
	case int(kindAck):
		return &Ack{NS: ns, ID: id, By: by(), Result: opaque("result"), Checkpoint: opaque("checkpoint")}
	case int(kindFail):
		return &Fail{NS: ns, ID: id, By: by(), Error: text("error"), Backtrace: text("trace"), Release: rapid.Bool().Draw(t, "release")}
	case int(kindHeartbeat):
		return &Heartbeat{NS: ns, ID: id, By: by(), Progress: opaque("progress"), Checkpoint: opaque("checkpoint")}
	case int(kindExtend):
		return &Extend{NS: ns, ID: id, Epoch: pos(), Until: at()}
	case int(kindFire):
		return &Fire{keys.Due{At: at(), Kind: keys.DueKind(rapid.Byte().Draw(t, "due")), NS: ns, ID: id}}
	case int(kindPause):
		return &Pause{NS: ns, Queue: queue(), Paused: rapid.Bool().Draw(t, "paused")}
	case int(kindCancel):
		return &Cancel{NS: ns, ID: id}
	case int(kindRetry):
		return &Retry{NS: ns, ID: id}
	case int(kindDelete):
		return &Delete{NS: ns, ID: id}
	default:
		return &TrimFeed{Before: rapid.Uint64().Draw(t, "before")}
	}
}

func TestRoundTrip_EveryCommandComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := []Command{}
		for range rapid.IntRange(0, 4).Draw(t, "count") {
			want = append(want, drawCommand(t))
		}
		got, err := Decode(Encode(want))
		if err != nil {
			t.Fatalf("decode: %v", err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("decoded %+v, want %+v", got, want)
		}
	})
}

// Every cut of a payload is refused: a torn entry is never half an entry.
func TestDecode_EveryPrefixIsRefused(t *testing.T) {
	t.Parallel()
	whole := Encode(samples())
	for n := range whole {
		if cmds, err := Decode(whole[:n]); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%d of %d bytes: %d commands, error %v", n, len(whole), len(cmds), err)
		}
	}
	if _, err := Decode(append(bytes.Clone(whole), 0)); !errors.Is(err, ErrMalformed) {
		t.Fatalf("one byte more: %v", err)
	}
}

func TestDecode_UnknownIsRefusedNeverSkipped(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"empty":             {},
		"version 0":         {0, 0},
		"version 2":         {2, 0},
		"kind 0":            {version, 1, 0},
		"the next kind":     {version, 1, byte(len(samples()) + 1)},
		"too many commands": append([]byte{version, 0x81, 0x80, 0x01}, make([]byte, CommandsMax+1)...),
	} {
		if _, err := Decode(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, c := range samples() {
		f.Add(Encode([]Command{c}))
	}
	f.Add(Encode(samples()))
	f.Add([]byte{version, 1, byte(kindFetch)})
	f.Fuzz(func(t *testing.T, b []byte) {
		cmds, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatalf("error %v", err)
			}
			return
		}
		// What was accepted has one canonical form that reads the same.
		again, err := Decode(Encode(cmds))
		if err != nil || !reflect.DeepEqual(again, cmds) {
			t.Fatalf("%+v came back as %+v, %v", cmds, again, err)
		}
	})
}
