package shape

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// messagesMax bounds the messages in one message, map entries included: an empty
	// one is two bytes on the wire and a hundred in memory, so that without it a body
	// within its limit of bytes would cost a hundred times that. A full batch, each job
	// with all the tags or steps that are allowed, stays below.
	messagesMax = 200_000
	// countFrom is the length from which they are counted; what is shorter can not
	// hold enough to matter.
	countFrom = 16 << 10
)

var errTooManyMessages = fmt.Errorf("more than %d messages in one request", messagesMax)

// Codecs are connect's own, but that they count before they make anything.
func Codecs() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(binaryCodec{}), connect.WithCodec(jsonCodec{"json"}), connect.WithCodec(jsonCodec{"json; charset=utf-8"}),
	)
}

type binaryCodec struct{}

func (binaryCodec) Name() string { return "proto" }

func (c binaryCodec) Marshal(m any) ([]byte, error) { return c.MarshalAppend(nil, m) }

// MarshalAppend lets connect reuse its buffers.
func (binaryCodec) MarshalAppend(dst []byte, m any) ([]byte, error) {
	msg, err := protoOf(m)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, msg)
}

func (binaryCodec) Unmarshal(b []byte, m any) error {
	msg, err := protoOf(m)
	if err != nil {
		return err
	}
	return UnmarshalProto(b, msg)
}

type jsonCodec struct{ name string }

func (c jsonCodec) Name() string { return c.name }

func (c jsonCodec) Marshal(m any) ([]byte, error) { return c.MarshalAppend(nil, m) }

// MarshalAppend lets connect reuse its buffers.
func (jsonCodec) MarshalAppend(dst []byte, m any) ([]byte, error) {
	msg, err := protoOf(m)
	if err != nil {
		return nil, err
	}
	return protojson.MarshalOptions{}.MarshalAppend(dst, msg)
}

func (jsonCodec) Unmarshal(b []byte, m any) error {
	msg, err := protoOf(m)
	if err != nil {
		return err
	}
	if len(b) == 0 {
		return errors.New("zero-length payload is not a valid JSON object")
	}
	return UnmarshalJSON(b, msg)
}

func protoOf(m any) (proto.Message, error) {
	msg, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no protobuf message", m)
	}
	return msg, nil
}

// UnmarshalProto reads a message in binary form, after counting what is in it.
func UnmarshalProto(b []byte, m proto.Message) error {
	if len(b) >= countFrom {
		left := messagesMax
		countWire(b, m.ProtoReflect().Descriptor(), &left)
		if left < 0 {
			return errTooManyMessages
		}
	}
	return proto.Unmarshal(b, m)
}

// countWire takes the messages in b off left, until that is below 0. What is malformed
// is left for Unmarshal to find.
func countWire(b []byte, d protoreflect.MessageDescriptor, left *int) {
	for len(b) > 0 && *left >= 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return
		}
		if f := d.Fields().ByNumber(num); typ == protowire.BytesType && f != nil && f.Message() != nil {
			*left--
			inner, _ := protowire.ConsumeBytes(b)
			countWire(inner, f.Message(), left)
		}
		b = b[n:]
	}
}

// UnmarshalJSON reads a message in JSON form, after counting what is in it, and keeps the members of an enqueue that it does not know.
func UnmarshalJSON(b []byte, m proto.Message) error {
	if len(b) >= countFrom && objectsIn(b) > messagesMax {
		return errTooManyMessages
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, m); err != nil {
		return err
	}
	return keepUnknown(b, m)
}

// objectsIn counts the objects and lists of a JSON text that stand in no string.
func objectsIn(b []byte) int {
	n, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			n++
		}
	}
	return n
}
