package server

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// fullBatch is as many messages as a request within its limits can hold.
func fullBatch() *corvov1.EnqueueBatchRequest {
	m := &corvov1.EnqueueBatchRequest{}
	for range queue.BatchMax {
		o := &corvov1.EnqueueOptions{Tags: make(map[string]string), Chain: &corvov1.Chain{}}
		for i := range queue.TagsMax {
			o.Tags[string(rune('0'+i))] = ""
		}
		for range 100 {
			o.Chain.Steps = append(o.Chain.Steps, &corvov1.ChainStep{})
		}
		m.Jobs = append(m.Jobs, &corvov1.EnqueueRequest{Queue: "q", Options: o})
	}
	return m
}

func TestCodec_AFullBatchPassesAndAMillionElementsDoNot(t *testing.T) {
	t.Parallel()
	full := fullBatch()
	bin, err := proto.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	text, err := protojson.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	got := &corvov1.EnqueueBatchRequest{}
	if err := unmarshalProto(bin, got); err != nil || !proto.Equal(got, full) {
		t.Errorf("a full batch as protobuf: %v", err)
	}
	if err := unmarshalJSON(text, got); err != nil || !proto.Equal(got, full) {
		t.Errorf("a full batch as JSON: %v", err)
	}
	jobs := bytes.Repeat([]byte{0x0a, 0}, 1<<20)
	// A million steps in the chain of one job.
	chain := append([]byte{0x82, 0x01}, protowire.AppendBytes(nil, bytes.Repeat([]byte{0x0a, 0}, 1<<20))...)
	deep := append([]byte{0xa2, 0x01}, protowire.AppendBytes(nil, chain)...)
	deep = append([]byte{0x0a}, protowire.AppendBytes(nil, deep)...)
	for name, b := range map[string][]byte{"jobs": jobs, "steps": deep} {
		if err := unmarshalProto(b, &corvov1.EnqueueBatchRequest{}); err != errTooManyMessages { //nolint:errorlint // Is itself.
			t.Errorf("a million %s as protobuf: %v", name, err)
		}
	}
	million := []byte(`{"jobs":[` + strings.Repeat("{},", 1<<20) + `{}]}`)
	if err := unmarshalJSON(million, &corvov1.EnqueueBatchRequest{}); err != errTooManyMessages { //nolint:errorlint // Is itself.
		t.Errorf("a million jobs as JSON: %v", err)
	}
	// What stands in strings is no message.
	payload := &corvov1.EnqueueRequest{Queue: "q", PayloadJson: strings.Repeat("[{", 1<<20)}
	if text, err = protojson.Marshal(payload); err != nil {
		t.Fatal(err)
	}
	if err := unmarshalJSON(text, &corvov1.EnqueueRequest{}); err != nil {
		t.Errorf("a payload of brackets: %v", err)
	}
}
