package auditing_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/audit"
	"github.com/corvo-cloud/corvo/control-plane/internal/auditing"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/cloudtest"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/data-plane/api/permission"
)

// room is a tenant with an audit log.
type room struct {
	*cloudtest.World
	*auditing.Service
	ctx    context.Context
	tenant store.Tenant
}

func newRoom(t *testing.T, w *cloudtest.World) *room {
	t.Helper()
	tn, owner := w.Tenant(t, "acme", "ada@acme.test")
	ctx, _ := w.As(t, tn, owner, permission.RoleOwner)
	keys := audit.Keys{Store: w.Store, Seal: w.Seal, Now: w.Now}
	return &room{World: w, Service: &auditing.Service{Kit: w.Kit, Keys: keys}, ctx: ctx, tenant: tn}
}

// did writes entries, a minute apart.
func (r *room) did(t *testing.T, n int) {
	t.Helper()
	for range n {
		err := r.World.Store.Tenant(r.ctx, r.tenant.ID, func(tx *store.Tx) error {
			return change.Make(r.ctx, r.World.Kit, tx, "namespace.update", change.AuditOnly(change.Target{Type: "namespace", ID: "ns_1", Name: "default", TenantID: r.tenant.ID}),
				change.Fields{"labels": {Before: map[string]string{"a": "1"}, After: map[string]string{"b": "<ü>"}}, "n": {After: 9007199254740993}})
		})
		if err != nil {
			t.Fatal(err)
		}
		r.Advance(time.Minute)
	}
}

func (r *room) export(t *testing.T, request *cloudv1.ExportAuditLogRequest) (lines []string) {
	t.Helper()
	for {
		res, err := r.ExportAuditLog(r.ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, res.GetLines()...)
		if request.PageToken = res.GetNextPageToken(); request.GetPageToken() == "" {
			return lines
		}
	}
}

func verified(t *testing.T, lines []string, trusted ...string) auditlog.Report {
	t.Helper()
	r, err := auditlog.Verify(strings.NewReader(strings.Join(lines, "\n")), trusted...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestExport_OfManyPagesProvesItself(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		r := newRoom(t, w)
		if v := verified(t, r.export(t, new(cloudv1.ExportAuditLogRequest))); !v.Valid || v.Entries != 0 {
			t.Errorf("an empty log: %+v", v)
		}
		for range 3 {
			r.did(t, 7)
			if err := r.Keys.SignHeads(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.Advance(time.Hour)
		}
		r.did(t, 2)
		keys, err := r.ListAuditKeys(r.ctx, nil)
		if err != nil || len(keys.GetKeys()) != 1 {
			t.Fatalf("%v, %v", keys, err)
		}
		lines := r.export(t, &cloudv1.ExportAuditLogRequest{PageSize: 4})
		v := verified(t, lines, keys.GetKeys()[0].GetId())
		if !v.Valid || v.Entries != 23 || v.From != 1 || v.To != 23 || v.Heads != 3 || v.Tenant != "acme" {
			t.Errorf("%+v", v)
		}
		// What is written between two pages is not in it.
		first, err := r.ExportAuditLog(r.ctx, &cloudv1.ExportAuditLogRequest{PageSize: 20})
		if err != nil {
			t.Fatal(err)
		}
		r.did(t, 1)
		if err := r.Keys.SignHeads(t.Context()); err != nil {
			t.Fatal(err)
		}
		rest := r.export(t, &cloudv1.ExportAuditLogRequest{PageSize: 20, PageToken: first.GetNextPageToken()})
		if v := verified(t, append(first.GetLines(), rest...)); !v.Valid || v.Entries != 23 {
			t.Errorf("%+v", v)
		}
	})
}

func TestExport_OfATimeIsAPartOfTheChain(t *testing.T) {
	t.Parallel()
	cloudtest.Each(t, func(t *testing.T, w *cloudtest.World) {
		r := newRoom(t, w)
		began := r.Now()
		r.did(t, 20)
		v := verified(t, r.export(t, &cloudv1.ExportAuditLogRequest{
			After: timestamppb.New(began.Add(5 * time.Minute)), Before: timestamppb.New(began.Add(10 * time.Minute)), PageSize: 3,
		}))
		if !v.Valid || v.From != 6 || v.To != 10 || v.FirstSeq != 1 {
			t.Errorf("%+v", v)
		}
		if v := verified(t, r.export(t, &cloudv1.ExportAuditLogRequest{After: timestamppb.New(began.Add(time.Hour))})); !v.Valid || v.Entries != 0 {
			t.Errorf("of no time: %+v", v)
		}
		_, err := r.ExportAuditLog(r.ctx, &cloudv1.ExportAuditLogRequest{PageToken: "x"})
		cloudtest.Refused(t, err, "INVALID_ARGUMENT")
	})
}

// The chain proves itself also after its beginning was deleted.
func TestExport_AfterRetentionBeginsWhereAHeadSays(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	r := newRoom(t, w)
	for range 10 {
		r.did(t, 1)
		if err := r.Keys.SignHeads(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.Advance(24 * time.Hour)
	}
	if n, err := r.Keys.Expire(t.Context(), 5*24*time.Hour); err != nil || n < 4 {
		t.Fatalf("%d deleted, %v", n, err)
	}
	lines := r.export(t, new(cloudv1.ExportAuditLogRequest))
	v := verified(t, lines)
	if !v.Valid || v.From != v.FirstSeq || v.From < 5 || v.To != 10 {
		t.Errorf("%+v", v)
	}
}

// An entry that somebody changed in the database is named by the check of an export.
func TestExport_ShowsAChangeInTheDatabase(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	r := newRoom(t, w)
	r.did(t, 5)
	w.Service(t, func(ctx context.Context, tx *store.Tx) error {
		page, err := tx.AuditFrom(ctx, r.tenant.ID, 5, 1)
		if err != nil {
			return err
		}
		// The end of the chain says something else than its last entry.
		return errors.Join(err, tx.EndAuditChain(ctx, r.tenant.ID, page[0].Seq, strings.Repeat("0", 64)))
	})
	if v := verified(t, r.export(t, new(cloudv1.ExportAuditLogRequest))); v.Valid || len(v.Problems) == 0 {
		t.Errorf("%+v", v)
	}
}

func TestExport_OCSFHasWhatItsClassesRequire(t *testing.T) {
	t.Parallel()
	w := cloudtest.New(t)
	r := newRoom(t, w)
	r.did(t, 3)
	lines := r.export(t, &cloudv1.ExportAuditLogRequest{Format: cloudv1.AuditFormat_AUDIT_FORMAT_OCSF, PageSize: 2})
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	var e struct {
		ClassUID, TypeUID, ActivityID int
	}
	var raw map[string]any
	if err := errors.Join(json.Unmarshal([]byte(lines[0]), &raw), json.Unmarshal([]byte(strings.NewReplacer("class_uid", "ClassUID", "type_uid", "TypeUID", "activity_id", "ActivityID").Replace(lines[0])), &e)); err != nil {
		t.Fatal(err)
	}
	if e.ClassUID != 3004 || e.ActivityID != 3 || e.TypeUID != 300403 || raw["entity"] == nil || raw["metadata"] == nil {
		t.Errorf("%s", lines[0])
	}
}
