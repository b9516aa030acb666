package tenancy

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/listing"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// ListAuditEvents lists newest first.
func (s *Service) ListAuditEvents(ctx context.Context, r *cloudv1.ListAuditEventsRequest) (*cloudv1.ListAuditEventsResponse, error) {
	f, err := auditFilter(r)
	if err != nil {
		return nil, err
	}
	l, err := listing.Of(ctx, s.Seal, "ListAuditEvents", r, f.ActorID, f.ActionPrefix, f.TargetID, f.Namespace, f.After.UnixNano(), f.Before.UnixNano())
	if err != nil {
		return nil, err
	}
	var found []store.AuditEvent
	err = s.read(ctx, func(tx *store.Tx) (err error) {
		found, err = tx.ListAudit(ctx, access.From(ctx).TenantID, f, l.Page())
		return err
	})
	if err != nil {
		return nil, err
	}
	res := new(cloudv1.ListAuditEventsResponse)
	found, res.NextPageToken = listing.Cut(l, found, func(e store.AuditEvent) string { return e.ID })
	for _, e := range found {
		m, err := auditMessage(e)
		if err != nil {
			return nil, err
		}
		res.Events = append(res.Events, m)
	}
	return res, nil
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
			f.After = t.AsTime()
		} else {
			f.Before = t.AsTime()
		}
	}
	return f, fault.InvalidFields(wrong)
}

func auditMessage(e store.AuditEvent) (*cloudv1.AuditEvent, error) {
	m := &cloudv1.AuditEvent{
		Id: e.ID, At: stamp(e.At), ActorType: e.ActorType, ActorId: e.ActorID, Actor: e.Actor, Action: e.Action,
		TargetType: e.TargetType, TargetId: e.TargetID, Target: e.Target, RequestId: e.RequestID, Peer: e.Peer, UserAgent: e.UserAgent,
		NamespaceId: e.NamespaceID, Namespace: e.Namespace,
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
