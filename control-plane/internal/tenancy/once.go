package tenancy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const uuidForm = `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`

// first is a call that may be repeated: the same request id and body get the first
// answer again.
type first struct {
	method, requestID, body string
}

// firstOf checks the request id. An empty one makes the call an ordinary one.
func firstOf(method, requestID string, request proto.Message) (first, error) {
	if requestID != "" && !regexp.MustCompile(uuidForm).MatchString(requestID) {
		return first{}, fault.InvalidField("request_id", "must be a UUID; use a new one for each new request")
	}
	body, err := bodyDigest(request)
	return first{method: method, requestID: requestID, body: body}, err
}

// bodyDigest leaves out how the tenant is named: name and id mean the same.
func bodyDigest(request proto.Message) (string, error) {
	bare := proto.Clone(request).ProtoReflect()
	for _, name := range []string{"tenant", "request_id"} {
		if f := bare.Descriptor().Fields().ByTextName(name); f != nil {
			bare.Clear(f)
		}
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(bare.Interface())
	if err != nil {
		return "", fmt.Errorf("digest the request: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}

// replay fills into with the first answer and reports whether there was one.
func (f first) replay(ctx context.Context, tx store.Tx, into proto.Message) (bool, error) {
	if f.requestID == "" {
		return false, nil
	}
	c := access.From(ctx)
	a, err := tx.GetAnswer(ctx, c.TenantID, c.ID(), f.method, f.requestID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for the first answer: %w", err)
	case a.Body != f.body:
		return false, fault.InvalidField("request_id", "was already used for another request in the last 24 hours; use a new one")
	}
	if err := protojson.Unmarshal([]byte(a.Answer), into); err != nil {
		return false, fmt.Errorf("read the first answer: %w", err)
	}
	return true, nil
}

// keep stores the answer for a repeated call. It must hold no secret.
func (f first) keep(ctx context.Context, tx store.Tx, s *Service, answer proto.Message) error {
	if f.requestID == "" {
		return nil
	}
	raw, err := protojson.Marshal(answer)
	if err != nil {
		return fmt.Errorf("keep the answer: %w", err)
	}
	c := access.From(ctx)
	err = tx.InsertAnswer(ctx, store.Answer{
		TenantID: c.TenantID, Principal: c.ID(), Method: f.method, RequestID: f.requestID, Body: f.body, Answer: string(raw), CreatedAt: s.Now(),
	})
	if errors.Is(err, store.ErrExists) {
		return fault.New(fault.Exists, "IN_PROGRESS", "the same request is already running; try again")
	}
	return err
}

// write runs the call's transaction. Of two that run at the same time the slower one
// finds the other's rows in its way, and with a second try the other's answer.
func (f first) write(ctx context.Context, s *Service, do func(store.Tx) error) error {
	err := s.write(ctx, do)
	if refused, ok := fault.As(err); ok && refused.Code == fault.Exists && f.requestID != "" {
		return s.write(ctx, do)
	}
	return err
}
