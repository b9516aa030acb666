// Package once owns repeatable calls: the same request id and body get the first
// answer, and nothing is done twice.
//
// It must not know what a call does. Surprising: the answer is kept before a secret is in
// it, so a repeated call shows none.
package once

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
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const uuidForm = `^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`

// Request is one that may carry a request id.
type Request interface {
	proto.Message
	GetRequestId() string
}

// Call is one in its caller's tenant. Without a request id it is an ordinary one.
type Call struct{ first store.Answer }

// Of checks the request id and takes a digest of the request.
func Of(ctx context.Context, method string, r Request) (Call, error) {
	id := r.GetRequestId()
	if id != "" && !regexp.MustCompile(uuidForm).MatchString(id) {
		return Call{}, fault.InvalidField("request_id", "must be a UUID; use a new one for each new request")
	}
	c := access.From(ctx)
	body, err := bodyDigest(r)
	return Call{store.Answer{TenantID: c.TenantID, Principal: c.ID(), Method: method, RequestID: id, Body: body}}, err
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

// Answered fills into with the first answer and reports whether there was one: for a call
// that does something before Do.
func (c Call) Answered(ctx context.Context, k kit.Kit, into proto.Message) (repeated bool, _ error) {
	if c.first.RequestID == "" {
		return false, nil
	}
	err := k.Store.ReadTenant(ctx, c.first.TenantID, func(tx *store.Tx) (err error) {
		repeated, err = c.replay(ctx, tx, into)
		return err
	})
	return repeated, err
}

// Do runs the call in a transaction of its tenant, unless it was answered before: then
// into holds the first answer. do fills into, with no secret in it.
func (c Call) Do(ctx context.Context, k kit.Kit, into proto.Message, do func(*store.Tx) error) (repeated bool, _ error) {
	write := func(tx *store.Tx) (err error) {
		if repeated, err = c.replay(ctx, tx, into); repeated || err != nil {
			return err
		}
		if err := do(tx); err != nil {
			return err
		}
		return c.keep(ctx, tx, k, into)
	}
	err := k.Store.Tenant(ctx, c.first.TenantID, write)
	// Of two concurrent calls the slower one conflicts with the other's rows; a second try
	// finds the other's answer.
	if refused, ok := fault.As(err); ok && refused.Code == fault.Exists && c.first.RequestID != "" {
		err = k.Store.Tenant(ctx, c.first.TenantID, write)
	}
	return repeated, err
}

func (c Call) replay(ctx context.Context, tx *store.Tx, into proto.Message) (bool, error) {
	if c.first.RequestID == "" {
		return false, nil
	}
	a, err := tx.GetAnswer(ctx, c.first.TenantID, c.first.Principal, c.first.Method, c.first.RequestID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for the first answer: %w", err)
	case a.Body != c.first.Body:
		return false, fault.InvalidField("request_id", "was already used for another request in the last 24 hours; use a new one")
	}
	if err := protojson.Unmarshal([]byte(a.Answer), into); err != nil {
		return false, fmt.Errorf("read the first answer: %w", err)
	}
	return true, nil
}

func (c Call) keep(ctx context.Context, tx *store.Tx, k kit.Kit, answer proto.Message) error {
	if c.first.RequestID == "" {
		return nil
	}
	raw, err := protojson.Marshal(answer)
	if err != nil {
		return fmt.Errorf("keep the answer: %w", err)
	}
	c.first.Answer, c.first.CreatedAt = string(raw), k.Now()
	err = tx.InsertAnswer(ctx, c.first)
	if errors.Is(err, store.ErrExists) {
		return fault.New(fault.Exists, "IN_PROGRESS", "the same request is already running; try again")
	}
	return err
}
