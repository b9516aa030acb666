package shape

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
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
	if err := UnmarshalProto(bin, got); err != nil || !proto.Equal(got, full) {
		t.Errorf("a full batch as protobuf: %v", err)
	}
	if err := UnmarshalJSON(text, got); err != nil || !proto.Equal(got, full) {
		t.Errorf("a full batch as JSON: %v", err)
	}
	jobs := bytes.Repeat([]byte{0x0a, 0}, 1<<20)
	// A million steps in the chain of one job.
	chain := append([]byte{0x82, 0x01}, protowire.AppendBytes(nil, bytes.Repeat([]byte{0x0a, 0}, 1<<20))...)
	deep := append([]byte{0xa2, 0x01}, protowire.AppendBytes(nil, chain)...)
	deep = append([]byte{0x0a}, protowire.AppendBytes(nil, deep)...)
	for name, b := range map[string][]byte{"jobs": jobs, "steps": deep} {
		if err := UnmarshalProto(b, &corvov1.EnqueueBatchRequest{}); err != errTooManyMessages {
			t.Errorf("a million %s as protobuf: %v", name, err)
		}
	}
	million := []byte(`{"jobs":[` + strings.Repeat("{},", 1<<20) + `{}]}`)
	if err := UnmarshalJSON(million, &corvov1.EnqueueBatchRequest{}); err != errTooManyMessages {
		t.Errorf("a million jobs as JSON: %v", err)
	}
	// What stands in strings is no message.
	payload := &corvov1.EnqueueRequest{Queue: "q", PayloadJson: strings.Repeat("[{", 1<<20)}
	if text, err = protojson.Marshal(payload); err != nil {
		t.Fatal(err)
	}
	if err := UnmarshalJSON(text, &corvov1.EnqueueRequest{}); err != nil {
		t.Errorf("a payload of brackets: %v", err)
	}
}

// FuzzCodec: what the counting codecs take is what protobuf takes, but for JSON that
// readers take in different ways; members without a place in the message are kept aside.
func FuzzCodec(f *testing.F) {
	batch := &corvov1.EnqueueBatchRequest{Jobs: []*corvov1.EnqueueRequest{{Queue: "q", Options: &corvov1.EnqueueOptions{
		Tags: map[string]string{"k": "v"}, Chain: &corvov1.Chain{Steps: []*corvov1.ChainStep{{Queue: "q"}, {}}},
	}}}}
	bin, _ := proto.Marshal(batch)
	text, _ := protojson.Marshal(batch)
	f.Add(bin, false)
	f.Add(append(bin, 0x0a, 0xff), false)
	f.Add(text, true)
	f.Add([]byte(`{"jobs":[{"queue":"\\\"{["},[{`), true)
	f.Add([]byte(`{"": [], "jobs": [{"queue": "q", "more": 1}]}`), true)
	f.Fuzz(func(t *testing.T, b []byte, asJSON bool) {
		got, want := &corvov1.EnqueueBatchRequest{}, &corvov1.EnqueueBatchRequest{}
		var gotErr, wantErr error
		if asJSON {
			gotErr, wantErr = UnmarshalJSON(b, got), protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, want)
		} else {
			left := messagesMax
			countWire(b, want.ProtoReflect().Descriptor(), &left) // Short as it may be.
			gotErr, wantErr = UnmarshalProto(b, got), proto.Unmarshal(b, want)
		}
		if errors.Is(gotErr, errTooManyMessages) {
			return
		}
		if asJSON && Check(b) != nil {
			if gotErr == nil {
				t.Fatal("taken, although readers differ on it")
			}
			return
		}
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%v, want %v", gotErr, wantErr)
		}
		if gotErr == nil && !proto.Equal(known(got), known(want)) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// known is m without what it has no fields for.
func known(m proto.Message) proto.Message {
	m = proto.Clone(m)
	_ = protorange.Range(m.ProtoReflect(), func(v protopath.Values) error {
		if at, ok := v.Index(-1).Value.Interface().(protoreflect.Message); ok {
			at.SetUnknown(nil)
		}
		return nil
	})
	return m
}
