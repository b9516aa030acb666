package auditing

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Service is the use cases. All fields are needed.
type Service struct {
	kit.Kit
	Keys audit.Keys
}

const (
	pageDefault = 500
	pageMax     = 1000
)

// ExportAuditLog gives a page of an export.
func (s *Service) ExportAuditLog(ctx context.Context, r *cloudv1.ExportAuditLogRequest) (*cloudv1.ExportAuditLogResponse, error) {
	f, err := exportFilter(r)
	if err != nil {
		return nil, err
	}
	if r.GetPageToken() == "" {
		s.CollectActs(ctx) // Before it is decided where the export ends.
	}
	c := access.From(ctx)
	caller, filter := c.TenantID+" "+c.ID(), fmt.Sprintf("ExportAuditLog %d %d %d", r.GetFormat(), f.After.UnixNano(), f.Before.UnixNano())
	res := new(cloudv1.ExportAuditLogResponse)
	span, err := s.span(ctx, r, caller, filter, f, res)
	if err != nil {
		return nil, err
	}
	size := cmp.Or(min(int(r.GetPageSize()), pageMax), pageDefault)
	var entries []store.AuditEvent
	err = s.Store.ReadTenant(ctx, c.TenantID, func(tx *store.Tx) (err error) {
		entries, span, err = audit.Entries(ctx, tx, c.TenantID, span, size)
		return err
	})
	if errors.Is(err, audit.ErrGone) {
		return nil, fault.New(fault.Conflict, "ENTRIES_DELETED", "%v; start the export again", err)
	}
	for _, e := range entries {
		if err == nil {
			var line string
			line, err = lineOf(r.GetFormat(), e)
			res.Lines = append(res.Lines, line)
		}
	}
	if span.From <= span.To {
		res.NextPageToken = s.Seal.PageToken(caller, filter, fmt.Sprintf("%d %d", span.From, span.To))
	}
	return res, err
}

// span is what is left to export: by the token, or all of it, whose first lines are added.
func (s *Service) span(
	ctx context.Context, r *cloudv1.ExportAuditLogRequest, caller, filter string, f store.AuditFilter, res *cloudv1.ExportAuditLogResponse,
) (span audit.Span, err error) {
	after, err := s.Seal.ParsePageToken(caller, filter, r.GetPageToken())
	if err != nil {
		return span, fault.InvalidField("page_token", "must be the next_page_token of an earlier call by the same caller with the same filters")
	}
	if after != "" {
		_, err = fmt.Sscanf(after, "%d %d", &span.From, &span.To)
		return span, err
	}
	c := access.From(ctx)
	lines, span, err := s.Keys.Begin(ctx, c.TenantID, c.Tenant, f)
	if r.GetFormat() != cloudv1.AuditFormat_AUDIT_FORMAT_OCSF {
		res.Lines = lines
	}
	return span, err
}

func exportFilter(r *cloudv1.ExportAuditLogRequest) (f store.AuditFilter, _ error) {
	var wrong []fault.Field
	if _, known := cloudv1.AuditFormat_name[int32(r.GetFormat())]; !known {
		wrong = append(wrong, fault.Field{Name: "format", Problem: "must be AUDIT_FORMAT_NATIVE or AUDIT_FORMAT_OCSF"})
	}
	if r.GetPageSize() < 0 {
		wrong = append(wrong, fault.Field{Name: "page_size", Problem: "can't be negative"})
	}
	for name, t := range map[string]*timestamppb.Timestamp{"after": r.GetAfter(), "before": r.GetBefore()} {
		if t != nil && t.CheckValid() != nil {
			wrong = append(wrong, fault.Field{Name: name, Problem: "must be a valid time"})
		}
	}
	if len(wrong) > 0 {
		return f, fault.InvalidFields(wrong)
	}
	if t := r.GetAfter(); t != nil {
		f.After, f.FromID = t.AsTime(), ids.Bound(ids.Audit, t.AsTime())
	}
	if t := r.GetBefore(); t != nil {
		f.Before, f.BelowID = t.AsTime(), ids.Bound(ids.Audit, t.AsTime().Add(time.Millisecond))
	}
	return f, nil
}

func lineOf(format cloudv1.AuditFormat, e store.AuditEvent) (string, error) {
	line := audit.Line(e)
	if format == cloudv1.AuditFormat_AUDIT_FORMAT_OCSF {
		return auditlog.Line(auditlog.OCSF(line))
	}
	return auditlog.Line(line)
}

// ListAuditKeys lists the public keys that ever signed.
func (s *Service) ListAuditKeys(ctx context.Context, _ *cloudv1.ListAuditKeysRequest) (*cloudv1.ListAuditKeysResponse, error) {
	keys, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) ([]auditlog.Key, error) { return audit.Public(ctx, tx) })
	res := new(cloudv1.ListAuditKeysResponse)
	for _, k := range keys {
		if err == nil {
			var public []byte
			public, err = base64.StdEncoding.DecodeString(strings.TrimSpace(k.PublicKey))
			res.Keys = append(res.Keys, &cloudv1.AuditKey{Id: k.KeyID, PublicKey: public, CreatedAt: timestamppb.New(k.CreatedAt.Time)})
		}
	}
	return res, err
}
