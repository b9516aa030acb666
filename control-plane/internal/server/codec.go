package server

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// strictJSON is connect's own JSON, but that a member nobody knows is refused: a setting
// with a misspelled name would otherwise be taken away by the change that should make it.
func strictJSON() connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithCodec(jsonCodec{"json"}), connect.WithCodec(jsonCodec{"json; charset=utf-8"}))
}

type jsonCodec struct{ name string }

func (c jsonCodec) Name() string { return c.name }

func (jsonCodec) Marshal(m any) ([]byte, error) {
	msg, err := messageOf(m)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(msg)
}

func (jsonCodec) Unmarshal(b []byte, m any) error {
	msg, err := messageOf(m)
	if err != nil {
		return err
	}
	if len(b) == 0 {
		return errors.New("an empty body isn't a JSON object")
	}
	return protojson.Unmarshal(b, msg)
}

func messageOf(m any) (proto.Message, error) {
	msg, ok := m.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", m)
	}
	return msg, nil
}
