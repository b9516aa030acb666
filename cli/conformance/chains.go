package conformance

import (
	"time"
)

// chainView is a chain as it is shown.
type chainView struct {
	Status string `json:"status"`
}

func (t *T) chainStatus(id, want string) {
	c := Get[chainView](t, "/api/v1/chains/"+id)
	Equal(t, "status of the chain", c.Status, want)
}

// steps makes a chain over fresh queues.
func (t *T) steps(n int, payload JSON) []Step {
	steps := make([]Step, n)
	for i := range steps {
		steps[i] = Step{Queue: t.Queue(), Payload: payload}
	}
	return steps
}

// begin enqueues a chain and takes its first step.
func (t *T) begin(c *Chain) Lease {
	e := t.Enqueue(Job{Queue: c.Steps[0].Queue, Chain: c, Payload: c.Steps[0].Payload})
	l := t.Fetch(c.Steps[0].Queue)
	Equal(t, "chain of the enqueue", e.ChainID, l.ChainID)
	t.FailIf(l.ChainID == "" || l.ChainStep == nil || *l.ChainStep != 0, "the first step is told %q, step %v", l.ChainID, l.ChainStep)
	return l
}

// step takes the next job of a chain and wants its place.
func (t *T) step(queue, chain string, place int) Lease {
	l := t.Fetch(queue)
	t.FailIf(l.ChainID != chain || l.ChainStep == nil || *l.ChainStep != place, "step of %q is told %q, step %v, want step %d", chain, l.ChainID, l.ChainStep, place)
	return l
}

var chainRules = []Rule{
	{Name: "each step follows on the ack of the one before and is told its result", Needs: "chains", Run: func(t *T, _ string) {
		c := &Chain{Steps: t.steps(3, `{"own":1}`), OnExit: &Step{Queue: t.Queue()}, OnFailure: &Step{Queue: t.Queue()}}
		first := t.begin(c)
		Equal(t, "payload", first.Payload, `{"own":1}`)
		t.Nothing(c.Steps[1].Queue)
		t.AckAs(Ack{ID: first.ID, Token: first.Token, Result: `[1,"two"]`})
		second := t.step(c.Steps[1].Queue, first.ChainID, 1)
		Equal(t, "payload", string(second.Payload), `{"previous_job_id":"`+first.ID+`","previous_result":[1,"two"],"own":1}`)
		t.Nothing(c.Steps[1].Queue)
		t.Ack(second)
		third := t.step(c.Steps[2].Queue, first.ChainID, 2)
		Equal(t, "payload", string(third.Payload), `{"previous_job_id":"`+second.ID+`","own":1}`)
		t.chainStatus(first.ChainID, "running")
		t.Ack(third)
		last := t.step(c.OnExit.Queue, first.ChainID, -1)
		Equal(t, "payload", string(last.Payload), `{"previous_job_id":"`+third.ID+`"}`)
		t.Ack(last)
		t.Nothing(c.OnExit.Queue, c.OnFailure.Queue)
		t.chainStatus(first.ChainID, "completed")
	}},
	{Name: "a chain goes on when acks come in a batch (trap 4.2)", Needs: "chains", Run: func(t *T, _ string) {
		c := &Chain{Steps: t.steps(2, "")}
		first := t.begin(c)
		t.AckBatch(Ack{ID: first.ID, Token: first.Token, Result: "7"}, Ack{ID: first.ID, Token: first.Token, Result: "7"})
		second := t.step(c.Steps[1].Queue, first.ChainID, 1)
		Equal(t, "payload", string(second.Payload), `{"previous_job_id":"`+first.ID+`","previous_result":7}`)
		t.Nothing(c.Steps[1].Queue)
	}},
	{Name: "the first step's payload is the job's, if the job has none", Needs: "chains", Run: func(t *T, _ string) {
		c := &Chain{Steps: t.steps(2, `"text"`)}
		t.Enqueue(Job{Queue: c.Steps[0].Queue, Chain: c})
		first := t.Fetch(c.Steps[0].Queue)
		Equal(t, "payload", first.Payload, `"text"`)
		t.Enqueue(Job{Queue: c.Steps[0].Queue, Chain: c, Payload: "{}"}) // What a client sends that was given none.
		Equal(t, "payload beside {}", t.Fetch(c.Steps[0].Queue).Payload, `"text"`)
		t.EnqueueRefused(Job{Queue: c.Steps[0].Queue, Chain: c, Payload: `"another"`}, "VALIDATION_ERROR", "chain.steps[0].payload")
		t.Ack(first)
		Equal(t, "payload", string(t.Fetch(c.Steps[1].Queue).Payload), `{"previous_job_id":"`+first.ID+`","payload":"text"}`)
	}},
	{Name: "exit leaves out the remaining steps and runs on_exit", Needs: "chains", Run: func(t *T, _ string) {
		c := &Chain{Steps: t.steps(3, ""), OnExit: &Step{Queue: t.Queue(), Payload: `{"previous_result":"mine"}`}}
		first := t.begin(c)
		t.AckAs(Ack{ID: first.ID, Token: first.Token, Result: "1", StepStatus: "exit", ExitReason: "enough"})
		last := t.step(c.OnExit.Queue, first.ChainID, -1)
		Equal(t, "payload", string(last.Payload), `{"previous_job_id":"`+first.ID+`","previous_result":"mine"}`)
		t.Nothing(c.Steps[1].Queue, c.Steps[2].Queue)
		t.chainStatus(first.ChainID, "exited")
	}},
	{Name: "a dead step runs on_failure, once, and a retry of it resumes the chain", Needs: "chains", Run: func(t *T, _ string) {
		c := &Chain{Steps: t.steps(2, ""), OnFailure: &Step{Queue: t.Queue(), Payload: `{"to":"us"}`}}
		t.Enqueue(Job{Queue: c.Steps[0].Queue, Chain: c, MaxRetries: new(1)})
		first := t.Fetch(c.Steps[0].Queue)
		t.Failed(first, "dead")
		handler := t.step(c.OnFailure.Queue, first.ChainID, -2)
		Equal(t, "payload", string(handler.Payload), `{"failed_job_id":"`+first.ID+`","failed_step":0,"error":"boom","to":"us"}`)
		t.Nothing(c.Steps[1].Queue)
		t.chainStatus(first.ChainID, "failed")
		t.Do(first.ID, "retry", "retried")
		t.chainStatus(first.ChainID, "running")
		t.Ack(t.Fetch(c.Steps[0].Queue))
		t.step(c.Steps[1].Queue, first.ChainID, 1)
		t.Nothing(c.OnFailure.Queue)
	}},
	{Name: "with on_failure continue the next step runs after a dead one", Needs: "chains", Run: func(t *T, _ string) {
		c := &Chain{Steps: t.steps(2, ""), GoOn: true}
		t.Enqueue(Job{Queue: c.Steps[0].Queue, Chain: c, MaxRetries: new(1)})
		first := t.Fetch(c.Steps[0].Queue)
		t.Failed(first, "dead")
		t.Ack(t.step(c.Steps[1].Queue, first.ChainID, 1))
		t.chainStatus(first.ChainID, "completed")
	}},
	{Name: "after a step was cancelled or deleted nothing follows", Needs: "chains", Run: func(t *T, _ string) {
		for _, how := range []string{"cancel", "delete"} {
			c := &Chain{Steps: t.steps(2, ""), OnFailure: &Step{Queue: t.Queue()}, OnExit: &Step{Queue: t.Queue()}}
			e := t.Enqueue(Job{Queue: c.Steps[0].Queue, Chain: c})
			chain := t.Job(e.ID).ChainID
			if how == "cancel" {
				t.Do(e.ID, "cancel", "cancelled")
			} else {
				t.Delete(e.ID)
			}
			t.Nothing(c.Steps[0].Queue, c.Steps[1].Queue, c.OnFailure.Queue, c.OnExit.Queue)
			t.chainStatus(chain, "cancelled")
		}
	}},
	{Name: "a completed step that is retried has no second follower", Needs: "chains", Run: func(t *T, _ string) {
		c := &Chain{Steps: t.steps(2, "")}
		first := t.begin(c)
		t.Ack(first)
		t.Fetch(c.Steps[1].Queue)
		t.Do(first.ID, "retry", "retried")
		t.Ack(t.Fetch(c.Steps[0].Queue))
		t.Nothing(c.Steps[1].Queue)
	}},
	{Name: "what follows has the options of the job before", Needs: "chains", Run: func(t *T, _ string) {
		c := &Chain{Steps: t.steps(2, "")}
		t.Enqueue(Job{
			Queue: c.Steps[0].Queue, Chain: c, Priority: "critical", MaxRetries: new(8), Backoff: "linear", Tags: map[string]string{"k": "v"},
			ExpireAfter: new(time.Hour),
		})
		t.Ack(t.Fetch(c.Steps[0].Queue))
		j := t.Job(t.Fetch(c.Steps[1].Queue).ID)
		t.FailIf(j.Priority != 0 || j.MaxRetries != 8 || j.Backoff != "linear" || j.Tags["k"] != "v" || !about(j.ExpireAt.Sub(j.CreatedAt), time.Hour), "the second step is %+v", j)
	}},
	{Name: "each job of a batch may carry a chain of its own", Needs: "chains", Run: func(t *T, _ string) {
		a, b := &Chain{Steps: t.steps(2, "")}, &Chain{Steps: t.steps(2, "")}
		t.EnqueueBatch(nil, Job{Queue: a.Steps[0].Queue, Chain: a}, Job{Queue: b.Steps[0].Queue, Chain: b})
		for _, c := range []*Chain{a, b} {
			t.Ack(t.Fetch(c.Steps[0].Queue))
			t.Fetch(c.Steps[1].Queue)
		}
	}},
	{Name: "a wrong chain is refused by field", Needs: "chains", Run: func(t *T, _ string) {
		steps := t.steps(2, "")
		q := steps[0].Queue
		for what, c := range map[string]*Chain{
			"one step":             {Steps: steps[:1]},
			"another first queue":  {Steps: []Step{steps[1], steps[0]}},
			"a bad queue":          {Steps: []Step{steps[0], {Queue: "a/b"}}},
			"too many steps":       {Steps: append(steps, make([]Step, 99)...)},
			"a bad exit queue":     {Steps: steps, OnExit: &Step{Queue: "a/b"}},
			"a bad failure queue":  {Steps: steps, OnFailure: &Step{Queue: "a/b"}},
			"an exit of no queue":  {Steps: steps, OnExit: &Step{Payload: "1"}},
			"a step without queue": {Steps: []Step{steps[0], {Payload: "1"}}},
		} {
			_, err := t.Client.Enqueue(t.Context, Job{Queue: q, Chain: c})
			t.FailIf(len(t.RefusedAs(what, err, invalid).Fields) == 0, "%s: %v", what, err)
		}
		t.Nothing(q)
	}},
}
