package repeat

import (
	"encoding/binary"
	"net/http"
	"testing"

	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

func TestSafe_WhatDoneTwiceIsDoneOnce(t *testing.T) {
	t.Parallel()
	const rpc = "/corvo.v1.WorkerService/"
	key := http.Header{"Idempotency-Key": {"k"}}
	typed := func(kind string) http.Header { return http.Header{"Content-Type": {kind}} }
	bin := func(m proto.Message) string {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	framed := func(m proto.Message) string {
		b := bin(m)
		return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b)))) + b
	}
	for _, c := range []struct {
		method, path, query string
		h                   http.Header
		body                string
		want                bool
	}{
		{"GET", "/api/v1/jobs", "", nil, "", true},
		{"DELETE", "/api/v1/queues/q", "", nil, "", false},
		{"POST", "/api/v1/queues/q/requeue", "", nil, "", false},
		{"POST", "/api/v1/fetch", "", nil, `{"queues":["q"]}`, true},
		{"POST", "/api/v1/fetch/batch", "", nil, `{}`, true},
		{"POST", "/api/v1/enqueue", "", nil, `{"queue":"q"}`, false},
		{"POST", "/api/v1/enqueue", "", nil, `{"queue":"q","unique_key":"u"}`, false},
		{"POST", "/api/v1/enqueue", "", nil, `{"queue":"q","idempotency_key":"k"}`, true},
		{"POST", "/api/v1/enqueue", "", key, `{"queue":"q"}`, true},
		{"POST", "/api/v1/enqueue", "", http.Header{"Content-Encoding": {"gzip"}, "Idempotency-Key": {"k"}}, `x`, false},
		{"POST", "/api/v1/enqueue/batch", "", nil, `{"jobs":[{"idempotency_key":"k"},{"queue":"q"}]}`, false},
		{"POST", "/api/v1/enqueue/batch", "", nil, `{"jobs":[{"idempotency_key":"k"},{"idempotency_key":"l"}]}`, true},
		{"POST", "/api/v1/enqueue/batch", "", nil, `{"jobs":[{"idempotency_key":"k"}],"batch":{}}`, false},
		{"POST", "/api/v1/enqueue/batch", "", key, `{"jobs":[{"queue":"q"}],"batch":{}}`, true},
		{"POST", "/api/v1/webhooks/q", "", nil, `{}`, false},
		{"POST", "/api/v1/webhooks/q", "idempotency_key=k", nil, `{}`, true},
		{"POST", "/api/v1/ack/job_1", "", nil, `{}`, false},
		{"POST", "/api/v1/ack/job_1", "", nil, `{"lease_token":"t"}`, true},
		{"POST", "/api/v1/ack/batch", "", nil, `{"acks":[{"job_id":"a","lease_token":"t"},{"job_id":"b"}]}`, false},
		{"POST", "/api/v1/ack/batch", "", nil, `{"acks":[{"job_id":"a","lease_token":"t"}]}`, true},
		{"POST", "/api/v1/fail/job_1", "", nil, `{"error":"x","lease_token":"t"}`, true},
		{"POST", "/api/v1/fail/job_1", "", nil, `{"error":"x"}`, false},
		{"POST", "/api/v1/heartbeat", "", nil, `{"jobs":{"a":{"progress":1}}}`, true},
		{"POST", "/api/v1/heartbeat", "", nil, `{"jobs":{"a":{"usage":{"input_tokens":1}}}}`, false},
		{"POST", "/api/v1/jobs/job_1/replay", "", nil, `{}`, false},
		{"POST", "/api/v1/jobs/job_1/replay", "", key, `{}`, true},
		{"POST", "/api/v1/enqueue", "", nil, `{`, false},
		{"POST", rpc + "Fetch", "", nil, "", true},
		{"POST", rpc + "StreamLifecycle", "", nil, "", false},
		{"POST", rpc + "Enqueue", "", typed("application/json"), `{"options":{"idempotencyKey":"k"}}`, true},
		{"POST", rpc + "Enqueue", "", typed("application/json"), `{"queue":"q"}`, false},
		{"POST", rpc + "Enqueue", "", typed("application/proto"), bin(&corvov1.EnqueueRequest{Options: &corvov1.EnqueueOptions{IdempotencyKey: "k"}}), true},
		{"POST", rpc + "Ack", "", typed("application/grpc"), framed(&corvov1.AckRequest{LeaseToken: "t"}), true},
		{"POST", rpc + "Ack", "", typed("application/grpc"), framed(&corvov1.AckRequest{JobId: "j"}), false},
		{"POST", rpc + "Ack", "", typed("application/grpc"), "\x01" + framed(&corvov1.AckRequest{LeaseToken: "t"})[1:], false},
		{"POST", rpc + "AckBatch", "", typed("application/proto"), bin(&corvov1.AckBatchRequest{Items: []*corvov1.AckBatchItem{{LeaseToken: "t"}, {}}}), false},
		{"POST", rpc + "Fail", "", typed("application/proto"), bin(&corvov1.FailRequest{LeaseToken: "t"}), true},
		{"POST", rpc + "Heartbeat", "", typed("application/proto"),
			bin(&corvov1.HeartbeatRequest{Jobs: map[string]*corvov1.HeartbeatJobUpdate{"a": {Usage: &corvov1.UsageReport{}}}}), false},
	} {
		if got := Safe(c.method, c.path, c.query, c.h, []byte(c.body)); got != c.want {
			t.Errorf("%s %s %q %v: %v, want %v", c.method, c.path, c.body, c.h, got, c.want)
		}
	}
}
