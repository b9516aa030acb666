package server_test

import (
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

const (
	traceA = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traceB = "00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbb-00"
)

// A trace continues in the worker, on every path of enqueue and fetch.
func TestTrap121_TheTraceIsCarriedInTheJob(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	c := r.client()
	r.call(201, "POST", "/api/v1/enqueue", object{"queue": "t"}, "Traceparent", traceA)
	r.call(201, "POST", "/api/v1/enqueue", object{"queue": "t", "traceparent": traceB}, "Traceparent", traceA)
	r.call(201, "POST", "/api/v1/enqueue", object{"queue": "t"}, "Traceparent", "nonsense")
	r.call(201, "POST", "/api/v1/enqueue/batch", object{"jobs": []object{{"queue": "t"}}}, "Traceparent", traceB)
	req := connect.NewRequest(&corvov1.EnqueueRequest{Queue: "t"})
	req.Header().Set("Traceparent", traceA)
	if _, err := c.Enqueue(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	stream := r.stream()
	if err := stream.Send(&corvov1.LifecycleStreamRequest{RequestId: 1, Enqueues: []*corvov1.LifecycleEnqueueItem{
		{Queue: "t", Options: &corvov1.EnqueueOptions{Traceparent: traceB}},
	}}); err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Receive(); err != nil || m.GetError() != "" {
		t.Fatal(m, err)
	}
	var got []string
	for range 2 {
		g := r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{"t"}, "wait": 0})
		got = append(got, fmt.Sprint(g["traceparent"]))
	}
	one, err := c.Fetch(t.Context(), connect.NewRequest(&corvov1.FetchRequest{Queues: []string{"t"}, WaitMs: proto.Int64(0)}))
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, one.Msg.GetTraceparent())
	if err := stream.Send(&corvov1.LifecycleStreamRequest{RequestId: 2, Queues: []string{"t"}, FetchCount: 9}); err != nil {
		t.Fatal(err)
	}
	m, err := stream.Receive()
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range m.GetJobs() {
		got = append(got, j.GetTraceparent())
	}
	if want := []string{traceA, traceB, "", traceB, traceA, traceB}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("workers got %q, want %q", got, want)
	}
}

// A checkpoint is kept on every path of the ack.
func TestReal_CheckpointOfAnAckIsKeptOnEveryPath(t *testing.T) {
	t.Parallel()
	r := startReal(t)
	c := r.client()
	acks := map[string]func(id string) error{
		"single": func(id string) error {
			_, err := r.try(200, "POST", "/api/v1/ack/"+id, object{"checkpoint": object{"at": 1}})
			return err
		},
		"batch": func(id string) error {
			_, err := r.try(200, "POST", "/api/v1/ack/batch", object{"acks": []object{{"job_id": id, "checkpoint": object{"at": 1}}}})
			return err
		},
		"RPC": func(id string) error {
			_, err := c.Ack(t.Context(), connect.NewRequest(&corvov1.AckRequest{JobId: id, CheckpointJson: `{"at":1}`}))
			return err
		},
		"RPC batch": func(id string) error {
			_, err := c.AckBatch(t.Context(), connect.NewRequest(&corvov1.AckBatchRequest{
				Items: []*corvov1.AckBatchItem{{JobId: id, CheckpointJson: `{"at":1}`}},
			}))
			return err
		},
		"stream": func(id string) error {
			_, err := r.try(200, "POST", "/corvo.v1.WorkerService/StreamLifecycle", object{
				"requestId": "1", "acks": []object{{"jobId": id, "checkpointJson": `{"at":1}`}},
			}, "Content-Type", "application/json")
			return err
		},
	}
	for name, ack := range acks {
		r.call(201, "POST", "/api/v1/enqueue", object{"queue": "c", "checkpoint": object{"at": 0}})
		g := r.call(200, "POST", "/api/v1/fetch", object{"queues": []string{"c"}, "wait": 5})
		if fmt.Sprint(g["checkpoint"]) != "map[at:0]" {
			t.Errorf("%s: granted with checkpoint %v", name, g["checkpoint"])
		}
		id := fmt.Sprint(g["job_id"])
		if err := ack(id); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if j := r.call(200, "GET", "/api/v1/jobs/"+id, nil); j["state"] != "completed" || fmt.Sprint(j["checkpoint"]) != "map[at:1]" {
			t.Errorf("%s: %v with checkpoint %v", name, j["state"], j["checkpoint"])
		}
	}
}
