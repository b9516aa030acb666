package queue

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/state"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

var validateNow = time.Unix(1_700_000_000, 0)

// text is a JSON string of n bytes.
func text(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`) }

func manyTags(n int) map[string]string {
	m := make(map[string]string, n)
	for i := range n {
		m[fmt.Sprintf("k%d", i)] = "v"
	}
	return m
}

func TestEnqueueInput_EveryFieldAtAndBeyondItsLimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", KeyBytesMax)
	for name, c := range map[string]struct {
		in   func(*EnqueueInput)
		want string // The one refused path; "" if it is allowed.
	}{
		"queue missing":               {func(in *EnqueueInput) { in.Queue = "" }, "queue"},
		"queue 128":                   {func(in *EnqueueInput) { in.Queue = strings.Repeat("a", QueueNameBytesMax) }, ""},
		"queue 129":                   {func(in *EnqueueInput) { in.Queue = strings.Repeat("a", QueueNameBytesMax+1) }, "queue"},
		"queue with a dot first":      {func(in *EnqueueInput) { in.Queue = ".a" }, "queue"},
		"queue with a newline":        {func(in *EnqueueInput) { in.Queue = "a\n" }, "queue"},
		"queue not ASCII":             {func(in *EnqueueInput) { in.Queue = "é" }, "queue"},
		"payload at its limit":        {func(in *EnqueueInput) { in.Payload = text(PayloadBytesMax) }, ""},
		"payload beyond":              {func(in *EnqueueInput) { in.Payload = text(PayloadBytesMax + 1) }, "payload"},
		"payload no JSON":             {func(in *EnqueueInput) { in.Payload = json.RawMessage("{") }, "payload"},
		"payload no UTF-8":            {func(in *EnqueueInput) { in.Payload = json.RawMessage("\"\xff\"") }, "payload"},
		"checkpoint at its limit":     {func(in *EnqueueInput) { in.Checkpoint = text(CheckpointBytesMax) }, ""},
		"checkpoint beyond":           {func(in *EnqueueInput) { in.Checkpoint = text(CheckpointBytesMax + 1) }, "checkpoint"},
		"priority":                    {func(in *EnqueueInput) { in.Priority = "urgent" }, "priority"},
		"priority critical":           {func(in *EnqueueInput) { in.Priority = "critical" }, ""},
		"max_retries 0":               {func(in *EnqueueInput) { in.MaxRetries = ptr(0) }, ""},
		"max_retries negative":        {func(in *EnqueueInput) { in.MaxRetries = ptr(-1) }, "max_retries"},
		"delay 0":                     {func(in *EnqueueInput) { in.Delay = ptr(time.Duration(0)) }, ""},
		"delay at":                    {func(in *EnqueueInput) { in.Delay = ptr(ScheduleAheadMax) }, ""},
		"delay beyond":                {func(in *EnqueueInput) { in.Delay = ptr(ScheduleAheadMax + 1) }, "delay"},
		"delay negative":              {func(in *EnqueueInput) { in.Delay = ptr(-time.Second) }, "delay"},
		"delay and scheduled_at":      {func(in *EnqueueInput) { in.Delay, in.ScheduledAt = ptr(time.Second), validateNow }, "delay"},
		"max_retries 1":               {func(in *EnqueueInput) { in.MaxRetries = ptr(1) }, ""},
		"max_retries 1000":            {func(in *EnqueueInput) { in.MaxRetries = ptr(RetriesMax) }, ""},
		"max_retries 1001":            {func(in *EnqueueInput) { in.MaxRetries = ptr(RetriesMax + 1) }, "max_retries"},
		"retry_backoff":               {func(in *EnqueueInput) { in.RetryBackoff = "cubic" }, "retry_backoff"},
		"retry_base_delay negative":   {func(in *EnqueueInput) { in.RetryBaseDelay = ptr(-time.Nanosecond) }, "retry_base_delay"},
		"retry_base_delay 0":          {func(in *EnqueueInput) { in.RetryBaseDelay = ptr(time.Duration(0)) }, ""},
		"retry_max_delay at":          {func(in *EnqueueInput) { in.RetryMaxDelay = ptr(DelayMax) }, ""},
		"retry_max_delay beyond":      {func(in *EnqueueInput) { in.RetryMaxDelay = ptr(DelayMax + 1) }, "retry_max_delay"},
		"scheduled_at past":           {func(in *EnqueueInput) { in.ScheduledAt = validateNow.Add(-time.Hour) }, ""},
		"scheduled_at at":             {func(in *EnqueueInput) { in.ScheduledAt = validateNow.Add(ScheduleAheadMax) }, ""},
		"scheduled_at beyond":         {func(in *EnqueueInput) { in.ScheduledAt = validateNow.Add(ScheduleAheadMax + 1) }, "scheduled_at"},
		"tags at":                     {func(in *EnqueueInput) { in.Tags = manyTags(TagsMax) }, ""},
		"tags beyond":                 {func(in *EnqueueInput) { in.Tags = manyTags(TagsMax + 1) }, "tags"},
		"tags empty key":              {func(in *EnqueueInput) { in.Tags = map[string]string{"": "v"} }, "tags"},
		"tag value at":                {func(in *EnqueueInput) { in.Tags = map[string]string{"k": strings.Repeat("v", TagBytesMax)} }, ""},
		"tag value beyond":            {func(in *EnqueueInput) { in.Tags = map[string]string{"k": strings.Repeat("v", TagBytesMax+1)} }, "tags.k"},
		"tag value no UTF-8":          {func(in *EnqueueInput) { in.Tags = map[string]string{"k": "\xff"} }, "tags.k"},
		"unique_key at":               {func(in *EnqueueInput) { in.UniqueKey = long }, ""},
		"unique_key beyond":           {func(in *EnqueueInput) { in.UniqueKey = long + "k" }, "unique_key"},
		"unique_period without a key": {func(in *EnqueueInput) { in.UniquePeriod = ptr(time.Hour) }, "unique_period"},
		"unique_period 1s":            {func(in *EnqueueInput) { in.UniqueKey, in.UniquePeriod = "k", ptr(time.Second) }, ""},
		"unique_period 0":             {func(in *EnqueueInput) { in.UniquePeriod = ptr(time.Duration(0)) }, ""},
		"unique_period a year":        {func(in *EnqueueInput) { in.UniqueKey, in.UniquePeriod = "k", ptr(UniquePeriodMax) }, ""},
		"unique_period beyond":        {func(in *EnqueueInput) { in.UniqueKey, in.UniquePeriod = "k", ptr(UniquePeriodMax+1) }, "unique_period"},
		"unique_period below":         {func(in *EnqueueInput) { in.UniqueKey, in.UniquePeriod = "k", ptr(time.Second-1) }, "unique_period"},
		"idempotency_key at":          {func(in *EnqueueInput) { in.IdempotencyKey = long }, ""},
		"idempotency_key beyond":      {func(in *EnqueueInput) { in.IdempotencyKey = long + "k" }, "idempotency_key"},
		"traceparent beyond":          {func(in *EnqueueInput) { in.TraceParent = long + "k" }, "traceparent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := EnqueueInput{Queue: "q"}
			c.in(&in)
			want := []string{}
			if c.want != "" {
				want = []string{c.want}
			}
			equal(t, "refused", fieldPaths(in.Check(Caller{}, validateNow)), want)
		})
	}
}

func TestEnqueueInput_EverythingWrongIsNamedAtOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", KeyBytesMax+1)
	in := EnqueueInput{
		Queue: "-", Payload: json.RawMessage("{"), Checkpoint: json.RawMessage("{"), Priority: "x", MaxRetries: ptr(-1), RetryBackoff: "x",
		RetryBaseDelay: ptr(-time.Second), RetryMaxDelay: ptr(2 * DelayMax), ScheduledAt: validateNow.Add(2 * ScheduleAheadMax),
		Tags: map[string]string{"t": long}, UniquePeriod: ptr(time.Hour), IdempotencyKey: long, TraceParent: long,
	}
	want := []string{
		"queue", "payload", "checkpoint", "priority", "max_retries", "retry_backoff", "retry_base_delay", "retry_max_delay",
		"scheduled_at", "tags.t", "unique_period", "idempotency_key", "traceparent",
	}
	equal(t, "refused", fieldPaths(in.Check(Caller{}, validateNow)), want)
	plan := Caller{PayloadBytesMax: 10}
	in = EnqueueInput{Queue: "q", Payload: text(11)}
	equal(t, "the plan's limit", fieldPaths(in.Check(plan, validateNow)), []string{"payload"})
	in.Payload = text(10)
	equal(t, "at the plan's limit", fieldPaths(in.Check(plan, validateNow)), []string{})
}

func TestFetchInput_EveryFieldAtAndBeyondItsLimit(t *testing.T) {
	t.Parallel()
	many := make([]string, FetchQueuesMax+1)
	for i := range many {
		many[i] = "q"
	}
	name := strings.Repeat("w", WorkerNameBytesMax)
	for what, c := range map[string]struct {
		in   FetchInput
		want []string
	}{
		"no queues":     {FetchInput{}, []string{"queues"}},
		"64 queues":     {FetchInput{Queues: many[1:]}, []string{}},
		"65 queues":     {FetchInput{Queues: many}, []string{"queues"}},
		"names":         {FetchInput{Queues: []string{"ok", "-", ""}}, []string{"queues[1]", "queues[2]"}},
		"limits":        {FetchInput{Queues: []string{"q"}, WorkerID: name, Hostname: name, Count: FetchCountMax, Lease: LeaseMax, Wait: WaitMax}, []string{}},
		"lower limits":  {FetchInput{Queues: []string{"q"}, Lease: LeaseMin}, []string{}},
		"beyond":        {FetchInput{Queues: []string{"q"}, WorkerID: name + "w", Hostname: name + "w", Count: FetchCountMax + 1, Lease: LeaseMax + 1, Wait: WaitMax + 1}, []string{"worker_id", "hostname", "count", "lease", "wait"}},
		"below":         {FetchInput{Queues: []string{"q"}, Count: -1, Lease: LeaseMin - 1, Wait: -1}, []string{"count", "lease", "wait"}},
		"names no text": {FetchInput{Queues: []string{"q"}, WorkerID: "\xff"}, []string{"worker_id"}},
	} {
		equal(t, what, fieldPaths(c.in.Check()), c.want)
	}
}

func TestCut_NeverSplitsACharacter(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"äö", 3, "ä"}, {"äö", 4, "äö"}, {"a€b", 2, "a"}, {"a€b", 3, "a"}, {"a€b", 4, "a€"},
		{"😀", 3, ""}, {"a\xffb", 10, "ab"}, {"", 0, ""},
	} {
		if got := cut(c.in, c.n); got != c.want {
			t.Errorf("cut(%q, %d) = %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add("a€😀\xff", 5)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = min(max(n, 0), 1<<16)
		got := cut(s, n)
		if len(got) > n || !utf8.ValidString(got) {
			t.Fatalf("cut(%q, %d) = %q", s, n, got)
		}
		if utf8.ValidString(s) && !strings.HasPrefix(s, got) {
			t.Fatalf("cut(%q, %d) = %q is not its beginning", s, n, got)
		}
	})
}

// Whatever text is accepted means one token, which has a spelling of its own.
func FuzzParseToken(f *testing.F) {
	f.Add("")
	f.Add("AAAA")
	f.Add(FormatToken(command.Token{Attempt: 3, Epoch: keys.Position{Index: 1 << 40, Ordinal: 7}}))
	f.Add(FormatToken(command.Token{Attempt: 1<<32 - 1, Epoch: keys.Position{Index: 1<<64 - 1, Ordinal: 1<<32 - 1}}))
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := ParseToken(s)
		if err != nil {
			return
		}
		if s == "" != tok.IsZero() {
			t.Fatalf("%q is %+v", s, tok)
		}
		if s == "" {
			return
		}
		again, err := ParseToken(FormatToken(tok))
		if err != nil || again != tok {
			t.Fatalf("%q is %+v; written again it is %+v, %v", s, tok, again, err)
		}
	})
}

func FuzzFormatToken(f *testing.F) {
	f.Add(uint32(1), uint64(2), uint32(3))
	f.Fuzz(func(t *testing.T, attempt uint32, index uint64, ordinal uint32) {
		tok := command.Token{Attempt: attempt, Epoch: keys.Position{Index: index, Ordinal: ordinal}}
		if tok.IsZero() {
			return
		}
		got, err := ParseToken(FormatToken(tok))
		if err != nil || got != tok {
			t.Fatalf("%+v came back as %+v, %v", tok, got, err)
		}
	})
}

// Clients of generation 2 take 409 for a unique key that is held, and would believe
// that the job exists.
func TestEnqueue_NoRefusalIsAConflict(t *testing.T) {
	t.Parallel()
	in := EnqueueInput{Queue: "q"}
	refusals := map[string]error{"a batch too many": makeRefusal(&state.Result{Refusal: state.TooMany})}
	for _, r := range []state.Refusal{state.Draining, state.NoDependency, state.TooMany, state.NoBatch, state.BatchClosed, state.BudgetSpent} {
		refusals[fmt.Sprintf("refusal %d", r)] = enqueueRefusal("", &in, &state.Result{Refusal: r})
	}
	for what, err := range refusals {
		if err == nil || fault.CodeOf(err) == fault.Conflict {
			t.Errorf("%s: %v", what, err)
		}
	}
}
