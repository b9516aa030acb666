package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/keys"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/stateread"
)

type object = map[string]any

// enqueueOption is one option of an enqueue as every path spells it.
type enqueueOption struct {
	field string // Of queue.EnqueueInput.
	json  object // Members of a JSON enqueue.
	proto object // Members of an EnqueueRequest or a LifecycleEnqueueItem, in protobuf's JSON form.
	// query says it in the address of a webhook, whose body is the payload; what is no
	// word can not stand there.
	query   string
	noQuery bool
	// given, when set, makes what the option refers to, and sets the option to it.
	given func(c *optionClient) (json, proto object, query string)
}

const optionTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func inOptions(member string, value any) object { return object{"options": object{member: value}} }

// enqueueOptions has an entry for each field of queue.EnqueueInput; a new one needs a
// line here.
var enqueueOptions = []enqueueOption{
	{field: "Queue", json: object{"queue": "Other.q-1_x"}, proto: object{"queue": "Other.q-1_x"}},
	{field: "Payload", json: object{"payload": object{"a": []any{1.0, "é::|\x00"}}}, proto: object{"payloadJson": `{"a":[1,"é::|\u0000"]}`}},
	{field: "Checkpoint", json: object{"checkpoint": object{"at": 7.0}}, proto: inOptions("checkpoint_json", `{"at":7}`), noQuery: true},
	{field: "Priority", json: object{"priority": "critical"}, proto: inOptions("priority", "critical"), query: "priority=critical"},
	{field: "MaxRetries", json: object{"max_retries": 9}, proto: inOptions("max_retries", 9), query: "max_retries=9"},
	{field: "RetryBackoff", json: object{"retry_backoff": "linear"}, proto: inOptions("retry_backoff", "linear"), query: "retry_backoff=linear"},
	{field: "RetryBaseDelay", json: object{"retry_base_delay": "1.5s"}, proto: inOptions("retry_base_delay_ms", 1500), query: "retry_base_delay=1.5s"},
	{field: "RetryBaseDelay", json: object{"retry_base_delay_ms": 1500}, proto: inOptions("retry_base_delay_ms", 1500), query: "retry_base_delay_ms=1500"},
	{field: "RetryMaxDelay", json: object{"retry_max_delay": "2h"}, proto: inOptions("retry_max_delay_ms", 7200000), query: "retry_max_delay=2h"},
	{field: "RetryMaxDelay", json: object{"retry_max_delay_ms": 7200000}, proto: inOptions("retry_max_delay_ms", 7200000), query: "retry_max_delay_ms=7200000"},
	{field: "ScheduledAt", json: object{"scheduled_at": "2031-01-02T03:04:05.000000006Z"}, proto: inOptions("scheduled_at", "2031-01-02T03:04:05.000000006Z"), query: "scheduled_at=2031-01-02T03:04:05.000000006Z"},
	{field: "Delay", json: object{"delay": "45m"}, proto: inOptions("delay_ms", 2700000), query: "delay=45m"},
	{field: "Delay", json: object{"delay_ms": 2700000}, proto: inOptions("delay_ms", 2700000), query: "delay_ms=2700000"},
	{field: "ExpireAfter", json: object{"expire_after": "45m"}, proto: inOptions("expire_after_ms", 2700000), query: "expire_after=45m"},
	{field: "ExpireAfter", json: object{"expire_after_ms": 2700000}, proto: inOptions("expire_after_ms", 2700000), query: "expire_after_ms=2700000"},
	{field: "Tags", json: object{"tags": object{"k": "v", "a:b": "x"}}, proto: inOptions("tags", object{"k": "v", "a:b": "x"}), noQuery: true},
	{field: "Tags", json: object{"tags": object{"k": "v:w", "l": ""}}, proto: inOptions("tags", object{"k": "v:w", "l": ""}), query: "tags=k:v:w,l:"},
	{field: "Tags", json: object{"group": "g"}, proto: inOptions("tags", object{"group": "g"}), query: "group=g"},
	{field: "UniqueKey", json: object{"unique_key": "u::|\x00"}, proto: inOptions("unique_key", "u::|\x00"), query: "unique_key=u::%7C%00"},
	{field: "UniquePeriod", json: object{"unique_key": "u", "unique_period": 600}, proto: object{"options": object{"unique_key": "u", "unique_period": 600}}, query: "unique_key=u&unique_period=600"},
	{field: "IdempotencyKey", json: object{"idempotency_key": "i"}, proto: inOptions("idempotency_key", "i"), query: "idempotency_key=i"},
	{field: "TraceParent", json: object{"traceparent": optionTrace}, proto: inOptions("traceparent", optionTrace), query: "traceparent=" + optionTrace},
	{field: "Agent", json: object{"agent": object{"max_iterations": 7, "max_cost_usd": 0.1, "iteration_timeout": "90s"}},
		proto: object{"agent": object{"max_iterations": 7, "max_cost_usd": 0.1, "iteration_timeout": "90s"}}, noQuery: true},
	{field: "ParentID", json: object{"parent_id": jobNumber(9).String()}, proto: inOptions("parent_id", jobNumber(9).String()), query: "parent_id=" + jobNumber(9).String()},
	{field: "Chain", json: object{"chain": object{"steps": optionSteps("payload", object{"n": 1.0}), "on_failure": "continue", "on_exit": object{"queue": "e"}}},
		proto:   inOptions("chain", object{"steps": optionSteps("payload_json", `{"n":1}`), "continue_on_failure": true, "on_exit": object{"queue": "e"}}),
		noQuery: true},
	{field: "Chain", json: object{"chain": object{"steps": optionSteps("payload", 7.0), "on_failure": object{"queue": "f", "payload": object{"n": 1.0}}}},
		proto:   inOptions("chain", object{"steps": optionSteps("payload_json", "7"), "on_failure": object{"queue": "f", "payload_json": `{"n":1}`}}),
		noQuery: true},
	{field: "DependsOn", noQuery: true, given: func(c *optionClient) (object, object, string) {
		on := []any{c.other("job_id", "/api/v1/enqueue", object{"queue": "other", "scheduled_at": "2031-01-02T03:04:05Z"})}
		return object{"depends_on": on}, inOptions("depends_on", on), ""
	}},
	{field: "OnDependencyFailed", noQuery: true, given: func(c *optionClient) (object, object, string) {
		on := []any{c.other("job_id", "/api/v1/enqueue", object{"queue": "other", "scheduled_at": "2031-01-02T03:04:05Z"})}
		return object{"depends_on": on, "on_dependency_failed": "cancel"},
			object{"options": object{"depends_on": on, "on_dependency_failed": "cancel"}}, ""
	}},
	{field: "BatchID", given: func(c *optionClient) (object, object, string) {
		id := c.other("batch_id", "/api/v1/batches", object{})
		return object{"batch_id": id}, inOptions("batch_id", id), "batch_id=" + id
	}},
}

func optionSteps(payload string, value any) []any {
	return []any{object{"queue": "q"}, object{"queue": "other", payload: value}}
}

// other makes what an option refers to.
func (c *optionClient) other(member, path string, body object) string {
	if c.dry {
		return ""
	}
	return c.postFor(member, path, body)
}

// enqueuePaths are the ways by which a job can come in.
var enqueuePaths = []struct {
	name    string
	enqueue func(c *optionClient, o *enqueueOption) string
}{
	{"HTTP single", func(c *optionClient, o *enqueueOption) string {
		return c.postFor("job_id", "/api/v1/enqueue", o.request())
	}},
	{"HTTP batch", func(c *optionClient, o *enqueueOption) string {
		return c.postFor("job_ids", "/api/v1/enqueue/batch", object{"jobs": []any{o.request()}})
	}},
	{"HTTP multi form", func(c *optionClient, o *enqueueOption) string {
		return c.postFor("job_ids", "/api/v1/enqueue", object{"jobs": []any{o.request()}})
	}},
	{"webhook", func(c *optionClient, o *enqueueOption) string {
		if o.noQuery {
			return ""
		}
		r := o.request()
		return c.postFor("job_id", "/api/v1/webhooks/"+url.PathEscape(r["queue"].(string))+"?"+o.query, r["payload"])
	}},
	{"Connect", func(c *optionClient, o *enqueueOption) string { return c.unary(o) }},
	{"Connect JSON", func(c *optionClient, o *enqueueOption) string { return c.unary(o, connect.WithProtoJSON()) }},
	{"gRPC", func(c *optionClient, o *enqueueOption) string { return c.unary(o, connect.WithGRPC()) }},
	{"Connect batch", func(c *optionClient, o *enqueueOption) string {
		m := &corvov1.EnqueueRequest{}
		o.into(c, m)
		resp, err := c.rpc().EnqueueBatch(c.Context(), withNamespace(c, &corvov1.EnqueueBatchRequest{Jobs: []*corvov1.EnqueueRequest{m}}))
		if err != nil {
			c.Fatal(err)
		}
		return resp.Msg.GetResults()[0].GetJobId()
	}},
	{"lock-step stream", func(c *optionClient, o *enqueueOption) string { return c.frame(o, false) }},
	{"pipelined stream", func(c *optionClient, o *enqueueOption) string { return c.frame(o, true) }},
	{"posted frame", func(c *optionClient, o *enqueueOption) string {
		m := &corvov1.LifecycleEnqueueItem{}
		o.into(c, m)
		raw, err := protojson.Marshal(&corvov1.LifecycleStreamRequest{RequestId: 1, Enqueues: []*corvov1.LifecycleEnqueueItem{m}})
		if err != nil {
			c.Fatal(err)
		}
		return c.postFor("enqueuedJobIds", "/corvo.v1.WorkerService/StreamLifecycle", json.RawMessage(raw))
	}},
}

// Every option, on every path, stores the same job.
func TestEveryOption_MeansTheSameOnEveryPath(t *testing.T) {
	t.Parallel()
	e := startEngine(t)
	plain := &enqueueOption{}
	for i := range enqueueOptions {
		o := &enqueueOptions[i]
		t.Run(o.field+fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			without, _ := e.stored(t, i, 0xff, plain)
			var first any
			for p, path := range enqueuePaths {
				got, ok := e.stored(t, i, p, o)
				switch {
				case !ok:
				case first == nil:
					first = got
					if reflect.DeepEqual(got, without) {
						t.Errorf("%s: the option changes nothing of the job: %+v", path.name, got)
					}
				case !reflect.DeepEqual(first, got):
					t.Errorf("%s stores another job than %s:\n%+v\n%+v", path.name, enqueuePaths[0].name, got, first)
				}
			}
		})
	}
}

// An option that is not in the table may get lost on some path.
func TestEveryOption_IsInTheTable(t *testing.T) {
	t.Parallel()
	fields, members, options := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, o := range enqueueOptions {
		fields[o.field] = true
		js, pr := o.json, o.proto
		if o.given != nil {
			js, pr, _ = o.given(&optionClient{bench: &bench{T: t}, dry: true})
		}
		for name := range js {
			members[name] = true
		}
		for name := range pr {
			options[name] = true
		}
		if more, ok := pr["options"].(object); ok {
			for name := range more {
				options[name] = true
			}
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[queue.EnqueueInput]()) {
		if !fields[f.Name] {
			t.Errorf("queue.EnqueueInput has the option %s, which no entry of enqueueOptions says", f.Name)
		}
	}
	for _, f := range enqueueShape.Fields() {
		if !f.Reserved && !members[f.Name] {
			t.Errorf("a JSON enqueue has the member %s, which no entry of enqueueOptions says", f.Name)
		}
	}
	for _, d := range []proto.Message{&corvov1.EnqueueOptions{}, &corvov1.EnqueueRequest{}, &corvov1.LifecycleEnqueueItem{}} {
		list := d.ProtoReflect().Descriptor().Fields()
		for i := range list.Len() {
			if f := list.Get(i); !options[string(f.Name())] && !options[f.JSONName()] && !enqueueReserved(string(f.Name())) {
				t.Errorf("%s has the option %s, which no entry of enqueueOptions says", d.ProtoReflect().Descriptor().Name(), f.Name())
			}
		}
	}
}

func enqueueReserved(name string) bool {
	reserved := slices.ContainsFunc(enqueueShape.Fields(), func(f shape.Field[queue.EnqueueInput]) bool { return f.Name == name && f.Reserved })
	return reserved || name == "on_dependency_failed" && !slices.ContainsFunc(enqueueOptions, func(o enqueueOption) bool { return o.field == "DependsOn" })
}

func (o *enqueueOption) request() object {
	r := object{"queue": "q", "payload": object{}}
	maps.Copy(r, o.json)
	return r
}

// into writes the option into a protobuf message of an enqueue.
func (o *enqueueOption) into(c *optionClient, m proto.Message) {
	r := object{"queue": "q"}
	maps.Copy(r, o.proto)
	raw, err := json.Marshal(r)
	if err == nil {
		err = protojson.Unmarshal(raw, m)
	}
	if err != nil {
		c.Fatalf("%s: %v", o.field, err)
	}
}

// engine is the whole of one shard behind a server.
type engine struct {
	*bench
	*local
}

func startEngine(t *testing.T) *engine {
	t.Helper()
	l := startLocal(t)
	router := newRouter(l.place())
	router.every = true
	return &engine{bench: newBench(t, benchOptions{auth: byHeader{}, router: router}), local: l}
}

// byHeader takes the namespace from a header: each case has one of its own.
type byHeader struct{}

const optionHeader = "Test-Namespace"

func (byHeader) Authenticate(r *http.Request) (*Principal, error) {
	ns, err := job.ParseNamespace(r.Header.Get(optionHeader))
	if err != nil {
		return nil, err
	}
	return NewOpen(ns).Authenticate(r)
}

// stored enqueues by one path and reads the stored records, without what differs
// between two enqueues of the same job: id, place and times.
func (e *engine) stored(t *testing.T, option, path int, o *enqueueOption) (lying, bool) {
	t.Helper()
	c := &optionClient{bench: e.bench.as(t), ns: job.Namespace{14: byte(option), 15: byte(path)}}
	said := *o
	if o.given != nil {
		said.json, said.proto, said.query = o.given(c)
	}
	enqueue := enqueuePaths[path%0xff].enqueue
	if path == 0xff {
		enqueue = enqueuePaths[0].enqueue
	}
	text := enqueue(c, &said)
	if text == "" {
		return lying{}, false
	}
	return e.read(t, c.ns, text), true
}

// lying is a job and the due rows of its namespace, as stored.
type lying struct {
	stateread.Job
	due   map[keys.DueKind]time.Duration // After the job was made.
	chain string                         // What became of the job's chain.
}

func (e *engine) read(t *testing.T, ns job.Namespace, text string) lying {
	t.Helper()
	id, err := job.ParseID(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	j, err := stateread.ReadJob(e.store, ns, id)
	if err != nil {
		t.Fatal(err)
	}
	l := lying{Job: j, due: make(map[keys.DueKind]time.Duration)}
	space := keys.In(e.store.Prefix())
	from, to := space.DueAll()
	err = e.store.Scan(from, to, func(key, _ []byte) (bool, error) {
		d, err := space.ParseDue(key)
		if err == nil && d.NS == ns {
			l.due[d.Kind] = since(j.CreatedAt, d.At)
		}
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !j.Chain.IsZero() {
		c, err := stateread.ReadChain(e.store, ns, j.Chain)
		if err != nil {
			t.Fatal(err)
		}
		l.chain = fmt.Sprintf("%s, %d steps, %d made, exit made %v, %q, go on %v", c.Status, c.Steps, len(c.Jobs), !c.ChainState.OnExit.IsZero(), c.ExitReason, c.GoOn)
	}
	timeless(&l.Job)
	return l
}

// since is coarse enough that two runs agree on it, however slow they are; the
// delays of the options are minutes. What is years away has a date, and is the same in all runs.
func since(created, at int64) time.Duration {
	switch {
	case at == 0:
		return 0
	case at-created > int64(24*time.Hour):
		return time.Duration(at)
	}
	return time.Duration(at - created).Round(time.Minute)
}

// timeless removes from j what differs between any two jobs.
func timeless(j *stateread.Job) {
	created := j.CreatedAt
	if j.Usage != nil {
		j.Usage.Lease = keys.Position{}
	}
	if j.Hold != nil {
		j.Hold.At = 0
	}
	j.Body.ExpireAt = int64(since(created, j.Body.ExpireAt))
	if !j.Chain.IsZero() {
		j.Chain = job.ChainID{1}
	}
	if !j.Batch.IsZero() {
		j.Batch = job.BatchID{1}
	}
	for i := range j.DependsOn {
		j.DependsOn[i] = job.ID{1}
	}
	if in := since(created, j.ScheduledAt); in < 24*time.Hour {
		j.ScheduledAt = int64(in) // It came from a delay.
	}
	j.Head.ExpireAt, j.Due = int64(since(created, j.Head.ExpireAt)), int64(since(created, j.Due))
	j.CreatedAt, j.Pos, j.Epoch = 0, keys.Position{}, keys.Position{}
	j.Started, j.Finished, j.FailedAt = 0, 0, 0
	for i := range j.Timeline {
		j.Timeline[i].At = 0
	}
	for i := range j.Errors {
		j.Errors[i].At = 0
	}
}

// optionClient speaks in one namespace.
type optionClient struct {
	*bench
	ns job.Namespace
	// dry: there is no server; only the spelling of an option is needed.
	dry bool
}

// as is the bench for a sub-test.
func (b *bench) as(t *testing.T) *bench {
	other := *b
	other.T = t
	return &other
}

// postFor posts and reads one id of the answer.
func (c *optionClient) postFor(member, path string, body any) string {
	c.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		c.Fatal(err)
	}
	a := c.post(path, string(raw), optionHeader, c.ns.String(), "Content-Type", "application/json")
	if a.status/100 != 2 {
		c.Fatalf("%s %s: %d %s", path, raw, a.status, a.body)
	}
	var out map[string]json.RawMessage
	a.into(c, &out)
	return string(bytes.Trim(out[member], `[]"`))
}

func (c *optionClient) rpc(opts ...connect.ClientOption) workerClient { return c.client(true, opts...) }

func (c *optionClient) unary(o *enqueueOption, opts ...connect.ClientOption) string {
	m := &corvov1.EnqueueRequest{}
	o.into(c, m)
	resp, err := c.rpc(opts...).Enqueue(c.Context(), withNamespace(c, m))
	if err != nil {
		c.Fatal(err)
	}
	return resp.Msg.GetJobId()
}

func withNamespace[T any](c *optionClient, m *T) *connect.Request[T] {
	r := connect.NewRequest(m)
	r.Header().Set(optionHeader, c.ns.String())
	return r
}

func (c *optionClient) frame(o *enqueueOption, pipelined bool) string {
	m := &corvov1.LifecycleEnqueueItem{}
	o.into(c, m)
	return c.exchange(&frameIn{RequestId: 1, Pipelined: pipelined, Enqueues: []*corvov1.LifecycleEnqueueItem{m}}).GetEnqueuedJobIds()[0]
}

// exchange sends one frame on a stream of its own.
func (c *optionClient) exchange(req *frameIn) *frameOut {
	c.Helper()
	st := c.rpc().StreamLifecycle(c.Context())
	st.RequestHeader().Set(optionHeader, c.ns.String())
	defer func() { _ = st.CloseRequest(); _ = st.CloseResponse() }()
	if err := st.Send(req); err != nil {
		c.Fatal(err)
	}
	msg, err := st.Receive()
	if err != nil || msg.GetError() != "" {
		c.Fatalf("%v %v", msg, err)
	}
	return msg
}
