package command

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew")

// samples is one command of every kind with every field set.
func samples() []Command {
	ns := job.Namespace{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	id := job.ID{0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, 0}
	by := Holder{Token: Token{Attempt: 3, Epoch: keys.Position{Index: 300, Ordinal: 2}}, Worker: "worker-1", Peer: 0xdeadbeefcafe}
	retry := RetryPolicy{MaxRetries: 7, Backoff: job.BackoffLinear, BaseDelay: 2 * time.Second, MaxDelay: time.Minute}
	usage := &Usage{Input: 1, Output: 2, CacheCreation: 3, CacheRead: 4, Cost: 5, Model: "m", Provider: "p", Total: true}
	delay := time.Minute
	chain := &Chain{
		ID: job.ChainID{9}, Steps: []Step{{Queue: "emails"}, {Queue: "b", Payload: []byte(`{"x":1}`)}},
		OnFailure: &Step{Queue: "f"}, OnExit: &Step{Queue: "e", Payload: []byte(`1`)}, GoOn: true,
	}
	all := []Command{
		&Enqueue{
			NS: ns, ID: id, Queue: "emails", Payload: []byte(`{"to":"a"}`), Checkpoint: []byte(`{"page":2}`), Priority: job.High,
			Retry: retry, RetryOpen: RetryMax | RetryMaxDelay,
			ScheduledAt: 1_700_000_000_123_456_789, ExpireAt: 1_700_000_000_123_456_789, Tags: []Tag{{"a", "1"}, {"b", ""}}, UniqueKey: "u", UniqueFor: time.Hour,
			IdempotencyKey: "i", IdempotencyFor: 24 * time.Hour, TraceParent: "00-01-02-03",
			Agent:  &AgentLimits{MaxIterations: 9, MaxCost: 1_500_000_000, IterationTimeout: time.Minute},
			Parent: job.ID{1}, Batch: job.BatchID{2}, Chain: chain, DependsOn: []job.ID{{3}, {4}}, OnDependency: DependencyCancel,
		},
		&Fetch{
			NS: ns, Jobs: []job.ID{id, {1}}, Queues: []string{"emails", "invoices"}, Worker: "worker-1", Hostname: "host-1", Peer: 0xdeadbeefcafe, Lease: 30 * time.Second,
			Floors: []Floor{{Queue: "emails", Priority: job.Normal, Pos: keys.Position{Index: 12, Ordinal: 34}}},
		},
		&Ack{
			NS: ns, ID: id, By: by, Result: []byte(`{"ok":true}`), Checkpoint: []byte(`1`), Usage: usage,
			Agent: AgentHold, HoldReason: "look", Step: StepExit, ExitReason: "enough",
		},
		&Fail{NS: ns, ID: id, By: by, Error: "boom", Backtrace: "at line 1", Release: true, Terminal: true, Delay: &delay, Usage: usage},
		&Heartbeat{NS: ns, ID: id, By: by, Progress: []byte(`{"p":1}`), Checkpoint: []byte(`2`), Usage: usage},
		&Extend{NS: ns, ID: id, Epoch: keys.Position{Index: 300, Ordinal: 2}, Until: 1_700_000_060_000_000_000},
		&Fire{Due: keys.Due{At: 1_700_000_060_000_000_000, Kind: keys.DueLease, NS: ns, ID: id}},
		&Pause{NS: ns, Queue: "emails", Paused: true},
		&Cancel{NS: ns, ID: id},
		&Retry{NS: ns, ID: id},
		&Delete{NS: ns, ID: id},
		&TrimFeed{Before: 1 << 40},
		&SetQueue{
			NS: ns, Queue: "emails", Set: SetPaused | SetConcurrency | SetThrottle, Paused: true, MaxConcurrency: 300,
			Throttle: Throttle{Limit: 1000, Window: time.Minute}, Draining: true, Retry: retry, RetrySet: RetryBackoff, IfSettings: 1 << 60,
		},
		&DeleteQueue{NS: ns, Queue: "emails"},
		&Sweep{NS: ns, Queue: "emails", Jobs: []job.ID{id, {1}}, Unique: []string{"u", "v"}, Idempotency: []string{"i"}, Done: 1 << 33},
		&Together{Count: 3},
		&Hold{NS: ns, ID: id, Reason: "look", By: "key_1"},
		&Decide{NS: ns, ID: id, Approve: true, Comment: "fine", By: "usr_1"},
		&Move{NS: ns, ID: id, Queue: "letters"},
		&ClearQueue{NS: ns, Queue: "emails"},
		&MakeBatch{NS: ns, ID: job.BatchID{5}, Callback: &Step{Queue: "done", Payload: []byte(`{"album":1}`)}},
		&SealBatch{NS: ns, ID: job.BatchID{5}},
		&PutSchedule{NS: ns, ID: job.ScheduleID{6}, Next: 1_700_000_000_000_000_000, Change: true, Version: 3, Schedule: Schedule{
			Name: "nightly", Cron: "0 2 * * *", Zone: "Europe/Berlin", Paused: true, Jitter: time.Second, Overlap: OverlapCancel, CatchUp: CatchUpAll,
			Job: Template{
				Queue: "reports", Payload: []byte(`{}`), Priority: job.High, Retry: retry, RetryOpen: RetryBaseDelay, ExpireAfter: time.Hour, Tags: []Tag{{"a", "1"}}, UniqueKey: "u", UniqueFor: time.Hour,
			},
		}},
		&DeleteSchedule{NS: ns, ID: job.ScheduleID{6}},
		&Tick{NS: ns, ID: job.ScheduleID{6}, Due: 7, Version: 8, Ticks: []int64{5, 7}, Missed: 2, Next: 9, Manual: true},
		&PutBudget{NS: ns, Budget: Budget{ID: job.BudgetID{7}, Scope: BudgetTag, Target: "team:a", Daily: 5_000_000_000, PerJob: 1_000_000_000, On: ExceedReject}},
		&DeleteBudget{NS: ns, Scope: BudgetQueue, Target: "emails"},
		&PutPolicy{NS: ns, Policy: Policy{
			ID: job.PolicyID{8}, Name: "large", Enabled: true, Any: true, Queue: "refunds", TagKey: "size", TagValue: "large",
			Approvers: []string{"usr_1"}, Expires: time.Hour, ApproveAtLast: true,
		}},
		&DeletePolicy{NS: ns, ID: job.PolicyID{8}},
		&Requeue{NS: ns, Queue: "q", Jobs: []job.ID{{1}, {2}}},
		&Prioritize{NS: ns, ID: id, Priority: job.High},
		&Audit{
			NS: ns, By: "key_1", Peer: "192.0.2.1", Act: "queue.pause", Type: "queue", Target: "emails", Detail: []byte(`{"a":"b"}`),
			Covers: 1, Op: id, Done: true,
		},
		&AuditTaken{Through: 9},
		&EndNamespace{NS: ns},
		&SweepNamespace{NS: ns, Due: []keys.Due{{At: 1_700_000_000_000_000_000, Kind: keys.DueSchedule, NS: ns, ID: id}}, Feed: []uint64{300, 1 << 40}, Done: true, Forget: true},
	}
	slices.SortFunc(all, func(a, b Command) int { return int(a.kind()) - int(b.kind()) })
	return all
}

// A command that nobody knows the namespace of would be taken for an ended one.
func TestNamespaceOf_EveryCommandOfANamespaceTellsIt(t *testing.T) {
	t.Parallel()
	for _, c := range samples() {
		ns, ok := NamespaceOf(c)
		v := reflect.ValueOf(c).Elem()
		want := v.FieldByName("NS")
		if due := v.FieldByName("Due"); !want.IsValid() && due.IsValid() {
			want = due.FieldByName("NS")
		}
		if ok != want.IsValid() || ok && ns != want.Interface().(job.Namespace) {
			t.Errorf("%T is of %v, %v", c, ns, ok)
		}
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

// What only some commands of a kind say costs the others nothing.
func TestEncode_PlainCommandsAreShort(t *testing.T) {
	t.Parallel()
	by := Holder{Token: Token{Attempt: 1, Epoch: keys.Position{Index: 1 << 20, Ordinal: 2}}, Worker: "worker-1"}
	for _, c := range []struct {
		cmd  Command
		most int
	}{
		{&Enqueue{Queue: "emails", Payload: []byte(`{"to":"a"}`), Priority: job.Normal}, 55},
		{&Ack{By: by}, 58},
		{&Fail{By: by, Error: "boom"}, 63},
		{&Heartbeat{By: by}, 58},
	} {
		if n := len(Encode([]Command{c.cmd})); n > c.most {
			t.Errorf("a plain %s takes %d bytes, want %d at most", nameOf(c.cmd), n, c.most)
		}
	}
}

// One value has one form: a part is named if and only if it says something.
func TestDecode_NamedAndEmptyPartsAreRefused(t *testing.T) {
	t.Parallel()
	head := func(k Kind, between int) []byte {
		return append([]byte{version, 1, byte(k)}, make([]byte, between)...)
	}
	enqueue, settle := head(kindEnqueue, 16+16+1+1+1), 16+16+1+2+1+8
	for name, b := range map[string][]byte{
		"an empty checkpoint":           append(enqueue, 0x80, 0x02, 0),
		"no tags":                       append(enqueue, byte(enqueueTags), 0),
		"no time":                       append(enqueue, byte(enqueueSchedule), 0),
		"a retry policy of zeros":       append(enqueue, byte(enqueueRetry), 0, 0, 0, 0),
		"a part that nobody knows":      append(enqueue, 0x80, 0x80, 0x01),
		"an empty result":               append(head(kindAck, settle), byte(ackResult), 0),
		"an agent that says nothing":    append(head(kindAck, settle), byte(ackAgent), 0, 0),
		"an empty backtrace":            append(head(kindFail, settle+1), byte(failBacktrace), 0),
		"a heartbeat of empty progress": append(head(kindHeartbeat, settle), byte(heartbeatProgress), 0),
	} {
		if cmds, err := Decode(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, cmds, err)
		}
	}
	for _, k := range []Kind{kindEnqueue, kindAck, kindFail, kindHeartbeat} { // Without parts they are read.
		between := settle
		switch k {
		case kindEnqueue:
			between = 16 + 16 + 1 + 1 + 1
		case kindFail:
			between = settle + 1
		}
		if _, err := Decode(append(head(k, between), 0)); err != nil {
			t.Errorf("kind %d without parts: %v", k, err)
		}
	}
}

// zeros is one empty command of every kind that newCommand knows.
func zeros() []Command {
	var out []Command
	for k := Kind(1); ; k++ {
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
		if c.kind() != Kind(i+1) || c.kind() != all[i].kind() {
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

// A type that has a number but is not made for it would be written and never read.
func TestKinds_EveryCommandTypeIsMadeForItsKind(t *testing.T) {
	t.Parallel()
	made := map[string]bool{}
	for i, c := range zeros() {
		if made[nameOf(c)] = true; c.kind() != Kind(i+1) {
			t.Errorf("kind %d makes a %s, which has kind %d", i+1, nameOf(c), c.kind())
		}
	}
	if len(made) != Kinds-1 {
		t.Errorf("%d types are made for %d kinds", len(made), Kinds-1)
	}
	src, err := os.ReadFile("kind.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := regexp.MustCompile(`func \(c \*(\w+)\) kind\(\) Kind`).FindAllStringSubmatch(string(src), -1)
	if len(methods) != len(made) {
		t.Errorf("%d types have a kind, %d are made", len(methods), len(made))
	}
	for _, m := range methods {
		if !made[m[1]] {
			t.Errorf("nothing makes a %s", m[1])
		}
	}
}

// drawCommand fills a command of any kind with whatever its fields can hold.
func drawCommand(t *rapid.T) Command {
	c, err := newCommand(Kind(rapid.IntRange(1, len(samples())).Draw(t, "kind")))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, reflect.ValueOf(c).Elem())
	return c
}

// ends are the values of the types that know only some.
var ends = map[reflect.Type]byte{
	reflect.TypeFor[DependencyPolicy](): byte(dependencyPoliciesEnd), reflect.TypeFor[AgentStatus](): byte(agentStatusesEnd),
	reflect.TypeFor[StepStatus](): byte(stepStatusesEnd), reflect.TypeFor[Overlap](): byte(overlapsEnd),
	reflect.TypeFor[CatchUp](): byte(catchUpsEnd), reflect.TypeFor[BudgetScope](): byte(budgetScopesEnd),
	reflect.TypeFor[OnExceed](): byte(exceedsEnd),
}

func fill(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes"); len(b) > 0 {
				v.SetBytes(b)
			}
			return
		}
		n := rapid.IntRange(0, 3).Draw(t, "items")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fill(t, v.Index(i))
		}
	case reflect.Array:
		reflect.Copy(v, reflect.ValueOf(rapid.SliceOfN(rapid.Byte(), v.Len(), v.Len()).Draw(t, "id")))
	case reflect.String:
		v.SetString(string(rapid.SliceOfN(rapid.Byte(), 0, 255).Draw(t, "text")))
	case reflect.Int64:
		v.SetInt(rapid.Int64Range(0, 1<<63-1).Draw(t, "number"))
	case reflect.Uint8:
		if end, ok := ends[v.Type()]; ok {
			v.SetUint(uint64(rapid.ByteRange(0, end-1).Draw(t, "word")))
			return
		}
		v.SetUint(uint64(rapid.Byte().Draw(t, "byte")))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "number")))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, "number"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	default:
		t.Fatalf("no way to fill a %s", v.Type())
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
		// That nothing is left out is what the samples show; an empty list may come
		// back as none.
		if !bytes.Equal(Encode(got), Encode(want)) {
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

func TestSize_IsThatOfTheEncodedCommands(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cmds := rapid.SliceOfN(rapid.Custom(drawCommand), 1, 4).Draw(t, "commands")
		if got, want := Size(cmds), len(Encode(cmds))-2; got != want { // The version and the number of commands.
			t.Fatalf("%+v take %d bytes, Size says %d", cmds, want, got)
		}
	})
}
