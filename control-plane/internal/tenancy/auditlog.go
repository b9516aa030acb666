package tenancy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// ListAuditEvents lists newest first. The first page has what was done until now.
func (s *Service) ListAuditEvents(ctx context.Context, r *cloudv1.ListAuditEventsRequest) (*cloudv1.ListAuditEventsResponse, error) {
	f, err := auditFilter(r)
	if err != nil {
		return nil, err
	}
	if r.GetPageToken() == "" {
		s.CollectActs(ctx)
	}
	var unreadable error
	shown, next, err := listing.Of[store.AuditEvent, *cloudv1.AuditEvent]{
		Method: "ListAuditEvents", Filter: []any{f.ActorID, f.ActionPrefix, f.TargetID, f.Namespace, f.After.UnixNano(), f.Before.UnixNano()},
		Key: func(e store.AuditEvent) string { return e.ID },
		Page: func(tx *store.Tx, tenantID string, p store.Page) ([]store.AuditEvent, error) {
			return tx.ListAudit(ctx, tenantID, f, p)
		},
		Show: func(e store.AuditEvent) *cloudv1.AuditEvent {
			m, err := auditMessage(e)
			unreadable = errors.Join(unreadable, err)
			return m
		},
	}.Read(ctx, s.Kit, r)
	return &cloudv1.ListAuditEventsResponse{Events: shown, NextPageToken: next}, errors.Join(err, unreadable)
}

func auditFilter(r *cloudv1.ListAuditEventsRequest) (store.AuditFilter, error) {
	f := store.AuditFilter{ActorID: r.GetActorId(), ActionPrefix: r.GetAction(), TargetID: r.GetTargetId(), Namespace: r.GetNamespace()}
	var wrong []fault.Field
	for name, t := range map[string]*timestamppb.Timestamp{"after": r.GetAfter(), "before": r.GetBefore()} {
		if t == nil {
			continue
		}
		if t.CheckValid() != nil {
			wrong = append(wrong, fault.Field{Name: name, Problem: "must be a valid time"})
		}
		if name == "after" {
			f.After, f.FromID = t.AsTime(), ids.Bound(ids.Audit, t.AsTime())
		} else {
			f.Before, f.BelowID = t.AsTime(), ids.Bound(ids.Audit, t.AsTime().Add(time.Millisecond))
		}
	}
	return f, fault.InvalidFields(wrong)
}

func auditMessage(e store.AuditEvent) (*cloudv1.AuditEvent, error) {
	m := &cloudv1.AuditEvent{
		Id: e.ID, At: stamp(e.At), ActorType: e.ActorType, ActorId: e.ActorID, Actor: e.Actor, Action: e.Action,
		TargetType: e.TargetType, TargetId: e.TargetID, Target: e.Target, RequestId: e.RequestID, Peer: e.Peer, UserAgent: e.UserAgent,
		NamespaceId: e.NamespaceID, Namespace: e.Namespace,
		Seq: e.Seq, PrevHash: e.PrevHash, Hash: e.Hash,
	}
	if len(e.Changes) == 0 {
		return m, nil
	}
	raw, err := json.Marshal(e.Changes)
	if err != nil {
		return nil, fmt.Errorf("audit event %s: %w", e.ID, err)
	}
	m.Changes = new(structpb.Struct)
	if err := protojson.Unmarshal(raw, m.Changes); err != nil {
		return nil, fmt.Errorf("audit event %s: %w", e.ID, err)
	}
	return m, nil
}
