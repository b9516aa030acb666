package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

// workOption is one thing a worker may report about its attempt, as every path spells it.
type workOption struct {
	verb  string // ack, fail or heartbeat.
	field string // Of queue.AckInput, FailInput or HeartbeatInput.
	json  object
	proto object
	job   object // Options of the job, if it must be a special one.
}

var optionAgent = object{"agent": object{"max_iterations": 7}}

var usageSample = object{"input_tokens": 3, "cost_usd": 0.1, "model": "m", "provider": "p", "kind": "delta"}

// workOptions has an entry for each field of the inputs; a new one needs a line here.
var workOptions = []workOption{
	{verb: "ack", field: "Result", json: object{"result": object{"r": 1.0}}, proto: object{"result_json": `{"r":1}`}},
	{verb: "ack", field: "Checkpoint", json: object{"checkpoint": object{"c": 1.0}}, proto: object{"checkpoint_json": `{"c":1}`}},
	{verb: "ack", field: "StepStatus", json: object{"step_status": "exit"}, proto: object{"step_status": "exit"}, job: optionChain},
	{verb: "ack", field: "ExitReason", json: object{"step_status": "exit", "exit_reason": "why::|\x00"},
		proto: object{"step_status": "exit", "exit_reason": "why::|\x00"}, job: optionChain},
	{verb: "fail", field: "Error", json: object{"error": "boom::|\x00"}, proto: object{"error": "boom::|\x00"}},
	{verb: "fail", field: "Backtrace", json: object{"backtrace": "at x"}, proto: object{"backtrace": "at x"}},
	{verb: "fail", field: "Release", json: object{"release": true}, proto: object{"release": true}},
	{verb: "fail", field: "Terminal", json: object{"terminal": true}, proto: object{"terminal": true}},
	{verb: "fail", field: "Delay", json: object{"delay": "45m"}, proto: object{"delay_ms": 2700000}},
	{verb: "fail", field: "Delay", json: object{"delay_ms": 2700000, "release": true}, proto: object{"delay_ms": 2700000, "release": true}},
	{verb: "fail", field: "Error", json: object{"error": "worker_shutdown"}, proto: object{"error": "worker_shutdown"}},
	{verb: "heartbeat", field: "Progress", json: object{"progress": 7.0}, proto: object{"progress_json": `7`}},
	{verb: "heartbeat", field: "Checkpoint", json: object{"checkpoint": object{"c": 1.0}}, proto: object{"checkpoint_json": `{"c":1}`}},
	{verb: "ack", field: "AgentStatus", json: object{"agent_status": "continue"}, proto: object{"agent_status": "continue"}, job: optionAgent},
	{verb: "ack", field: "HoldReason", json: object{"agent_status": "hold", "hold_reason": "r::|\x00"},
		proto: object{"agent_status": "hold", "hold_reason": "r::|\x00"}, job: optionAgent},
	{verb: "ack", field: "Usage", json: object{"usage": usageSample}, proto: object{"usage": usageSample}},
	{verb: "fail", field: "Usage", json: object{"usage": usageSample}, proto: object{"usage": usageSample}},
	{verb: "heartbeat", field: "Usage", json: object{"usage": usageSample}, proto: object{"usage": usageSample}},
}

// optionChain makes the job the first step of a chain.
var optionChain = object{"chain": object{"steps": []any{object{"queue": "q"}, object{"queue": "next"}}, "on_exit": object{"queue": "exit"}}}

// notOptions of a settlement say who settles what; a renewal lives in the leader's
// memory and stores nothing.
var notOptions = []string{"JobID", "Token", "WorkerID", "Lease"}

const service = "/corvo.v1.WorkerService/"

// workPaths are the ways to settle an attempt or to report on it.
var workPaths = map[string][]struct {
	name   string
	settle func(c *optionClient, id, token string, o *workOption)
}{
	"ack": {
		{"HTTP single", func(c *optionClient, id, token string, o *workOption) {
			c.done("/api/v1/ack/"+id, o.said(object{"lease_token": token}))
		}},
		{"HTTP batch", func(c *optionClient, id, token string, o *workOption) {
			c.done("/api/v1/ack/batch", object{"acks": []any{o.said(object{"lease_token": token, "job_id": id})}})
		}},
		{"Connect", func(c *optionClient, id, token string, o *workOption) {
			c.done(service+"Ack", o.spelled(object{"job_id": id, "lease_token": token}))
		}},
		{"Connect batch", func(c *optionClient, id, token string, o *workOption) {
			c.done(service+"AckBatch", object{"items": []any{o.spelled(object{"job_id": id, "lease_token": token})}})
		}},
		{"stream", func(c *optionClient, id, token string, o *workOption) {
			c.settleFrame(object{"acks": []any{o.spelled(object{"job_id": id, "lease_token": token})}})
		}},
	},
	"fail": {
		{"HTTP", func(c *optionClient, id, token string, o *workOption) {
			c.done("/api/v1/fail/"+id, o.said(object{"lease_token": token}))
		}},
		{"Connect", func(c *optionClient, id, token string, o *workOption) {
			c.done(service+"Fail", o.spelled(object{"job_id": id, "lease_token": token}))
		}},
		{"stream", func(c *optionClient, id, token string, o *workOption) {
			c.settleFrame(object{"fails": []any{o.spelled(object{"job_id": id, "lease_token": token})}})
		}},
	},
	"heartbeat": {
		{"HTTP", func(c *optionClient, id, token string, o *workOption) {
			c.done("/api/v1/heartbeat", object{"jobs": object{id: o.said(object{"lease_token": token})}})
		}},
		{"Connect", func(c *optionClient, id, token string, o *workOption) {
			c.done(service+"Heartbeat", object{"jobs": object{id: o.spelled(object{"lease_token": token})}})
		}},
		{"stream", func(c *optionClient, id, token string, o *workOption) {
			c.settleFrame(object{"heartbeats": object{id: o.spelled(object{"lease_token": token})}})
		}},
	},
}

// What a worker reports about its attempt is stored the same on every path.
func TestEveryWorkOption_MeansTheSameOnEveryPath(t *testing.T) {
	t.Parallel()
	e := startEngine(t)
	for i := range workOptions {
		o := &workOptions[i]
		t.Run(fmt.Sprintf("%s_%s%d", o.verb, o.field, i), func(t *testing.T) {
			t.Parallel()
			without := e.settled(t, i, 0xff, &workOption{verb: o.verb, job: o.job})
			var first lying
			for p, path := range workPaths[o.verb] {
				got := e.settled(t, i, p, o)
				switch {
				case p == 0:
					first = got
					if reflect.DeepEqual(got, without) {
						t.Errorf("%s: the option changes nothing of the job: %+v", path.name, got)
					}
				case !reflect.DeepEqual(first, got):
					t.Errorf("%s stores something else than %s:\n%+v\n%+v", path.name, workPaths[o.verb][0].name, got, first)
				}
			}
		})
	}
}

func TestEveryWorkOption_IsInTheTable(t *testing.T) {
	t.Parallel()
	for verb, in := range map[string]reflect.Type{
		"ack": reflect.TypeFor[queue.AckInput](), "fail": reflect.TypeFor[queue.FailInput](), "heartbeat": reflect.TypeFor[queue.HeartbeatInput](),
	} {
		for _, f := range reflect.VisibleFields(in) {
			said := slices.ContainsFunc(workOptions, func(o workOption) bool { return o.verb == verb && o.field == f.Name })
			if !said && !slices.Contains(notOptions, f.Name) {
				t.Errorf("%s has the option %s, which no entry of workOptions says", in.Name(), f.Name)
			}
		}
	}
}

func (o *workOption) said(with object) object    { maps.Copy(with, o.json); return with }
func (o *workOption) spelled(with object) object { maps.Copy(with, o.proto); return with }

// settled makes a job, leases it, and reports o about the attempt on one path.
func (e *engine) settled(t *testing.T, option, path int, o *workOption) lying {
	t.Helper()
	c := &optionClient{bench: e.bench.as(t), ns: job.Namespace{13: 1, 14: byte(option), 15: byte(path)}}
	in := object{"queue": "q"}
	maps.Copy(in, o.job)
	id := c.postFor("job_id", "/api/v1/enqueue", in)
	token := c.postFor("lease_token", "/api/v1/fetch", object{"queues": []string{"q"}, "worker_id": "w", "wait": 0})
	paths := workPaths[o.verb]
	paths[path%0xff%len(paths)].settle(c, id, token, o)
	return e.read(t, c.ns, id)
}

// done posts and fails unless every item is accepted.
func (c *optionClient) done(path string, body object) {
	c.Helper()
	c.postFor("", path, body)
}

func (c *optionClient) settleFrame(frame object) {
	c.Helper()
	raw, err := json.Marshal(frame)
	if err != nil {
		c.Fatal(err)
	}
	req := &frameIn{}
	if err := protojson.Unmarshal(raw, req); err != nil {
		c.Fatal(err)
	}
	msg := c.exchange(req)
	for _, o := range msg.GetAckOutcomes() {
		if o.GetCode() != "" {
			c.Fatal(o)
		}
	}
	for _, o := range msg.GetFailOutcomes() {
		if o.GetCode() != "" {
			c.Fatal(o)
		}
	}
}
