package sinks

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/api/auditlog"
	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/once"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/recurring"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// sinksPerTenant is more than a tenant has tools.
const sinksPerTenant = 10

// testTimeout is how long a sink may take for the test event.
const testTimeout = 15 * time.Second

// Service is the use cases and the loop.
type Service struct {
	kit.Kit
	sender *sender
	loop   *recurring.Loop
}

// New makes a Service; e is how customers' addresses are called.
func New(k kit.Kit, e egress.Options) *Service {
	s := &Service{Kit: k, sender: newSender(e)}
	s.loop = recurring.New(k, recurring.Work{Name: "audit-sinks", Every: tick, Lease: leaseFor, Failed: "can't send audit logs", Pass: s.pass})
	return s
}

// CreateAuditSink makes a sink that took a test event.
func (s *Service) CreateAuditSink(ctx context.Context, r *cloudv1.CreateAuditSinkRequest) (*cloudv1.CreateAuditSinkResponse, error) {
	t, secret, err := read(r, s.sender.egress)
	if err := errors.Join(err, checkName(r.GetName()), checkFormat(r.GetFormat())); err != nil {
		return nil, firstOf(err)
	}
	call, err := once.Of(ctx, "CreateAuditSink", r)
	if err != nil {
		return nil, err
	}
	res := new(cloudv1.CreateAuditSinkResponse)
	if repeated, err := call.Answered(ctx, s.Kit, res); err != nil || repeated {
		return res, err
	}
	now := s.Now()
	v := store.AuditSink{
		TenantID: access.From(ctx).TenantID, ID: s.IDs.New(ids.AuditSink, now), Name: r.GetName(), Format: int64(formatOf(r.GetFormat())), Enabled: true,
		DueAt: now, CreatedAt: now, UpdatedAt: now, Version: 1,
	}
	if err := keep(s.Seal, &v, t, secret); err != nil {
		return nil, err
	}
	if err := s.try(ctx, v, t, secret); err != nil {
		return nil, notTaken(t, err)
	}
	_, err = call.Do(ctx, s.Kit, res, func(tx *store.Tx) error {
		chain, err := s.insertable(ctx, tx, v)
		if err != nil {
			return err
		}
		if !r.GetFromBeginning() {
			v.Sent = chain.Seq
		}
		res.Sink = s.message(v, chain)
		err = change.Make(ctx, s.Kit, tx, "audit_sink.create", change.InsertAuditSink(v), change.Fields{
			"name": {After: v.Name}, "target": {After: t.place()}, "format": {After: formatName(v.Format)},
		})
		return taken(err)
	})
	return res, err
}

// insertable refuses one sink too many, and gives the tenant's chain.
func (s *Service) insertable(ctx context.Context, tx *store.Tx, v store.AuditSink) (store.AuditChain, error) {
	if err := plans.Feature(ctx, tx, v.TenantID, s.Now(), plans.FeatureAuditSinks); err != nil {
		return store.AuditChain{}, err
	}
	all, err := tx.ListAuditSinks(ctx, v.TenantID)
	if err != nil {
		return store.AuditChain{}, err
	}
	if len(all) >= sinksPerTenant {
		return store.AuditChain{}, fault.New(fault.Exhausted, "SINK_LIMIT", "a tenant can have at most %d audit sinks; delete one first", sinksPerTenant)
	}
	return chainOf(ctx, tx, v.TenantID)
}

func taken(err error) error {
	if errors.Is(err, store.ErrExists) {
		return fault.New(fault.Exists, "NAME_TAKEN", "there is an audit sink of this name; choose another one")
	}
	return err
}

func chainOf(ctx context.Context, tx *store.Tx, tenantID string) (store.AuditChain, error) {
	c, err := tx.GetAuditChain(ctx, tenantID)
	if errors.Is(err, store.ErrNotFound) {
		return store.AuditChain{TenantID: tenantID, FirstSeq: 1}, nil
	}
	return c, err
}

// GetAuditSink finds a sink.
func (s *Service) GetAuditSink(ctx context.Context, r *cloudv1.GetAuditSinkRequest) (*cloudv1.GetAuditSinkResponse, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.GetAuditSinkResponse, error) {
		v, err := find(ctx, tx, r.GetSinkId())
		if err != nil {
			return nil, err
		}
		chain, err := chainOf(ctx, tx, v.TenantID)
		return &cloudv1.GetAuditSinkResponse{Sink: s.message(v, chain)}, err
	})
}

func find(ctx context.Context, tx *store.Tx, id string) (store.AuditSink, error) {
	v, err := tx.GetAuditSink(ctx, access.From(ctx).TenantID, id)
	if errors.Is(err, store.ErrNotFound) {
		return v, fault.Missing("audit sink")
	}
	return v, err
}

// ListAuditSinks lists all.
func (s *Service) ListAuditSinks(ctx context.Context, _ *cloudv1.ListAuditSinksRequest) (*cloudv1.ListAuditSinksResponse, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.ListAuditSinksResponse, error) {
		tenantID := access.From(ctx).TenantID
		all, err := tx.ListAuditSinks(ctx, tenantID)
		if err != nil {
			return nil, err
		}
		chain, err := chainOf(ctx, tx, tenantID)
		res := new(cloudv1.ListAuditSinksResponse)
		for _, v := range all {
			res.Sinks = append(res.Sinks, s.message(v, chain))
		}
		return res, err
	})
}

// targetPaths are the fields of a mask that change the target.
var targetPaths = []string{"https", "s3", "syslog"}

// UpdateAuditSink changes the fields that the mask names.
func (s *Service) UpdateAuditSink(ctx context.Context, r *cloudv1.UpdateAuditSinkRequest) (*cloudv1.UpdateAuditSinkResponse, error) {
	paths := r.GetUpdateMask().GetPaths()
	if err := fault.InvalidMask(paths, append([]string{"name", "format", "enabled"}, targetPaths...)...); err != nil {
		return nil, err
	}
	has := func(path string) bool { return slices.Contains(paths, path) }
	var problems error
	if has("name") {
		problems = errors.Join(problems, checkName(r.GetName()))
	}
	if has("format") {
		problems = errors.Join(problems, checkFormat(r.GetFormat()))
	}
	if problems != nil {
		return nil, firstOf(problems)
	}
	moved, t, secret, err := s.moved(ctx, r, paths)
	if err != nil {
		return nil, err
	}
	res := new(cloudv1.UpdateAuditSinkResponse)
	return res, s.Write(ctx, func(tx *store.Tx) error {
		v, err := find(ctx, tx, r.GetSinkId())
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), tag(v), "this audit sink"); err != nil {
			return err
		}
		before, fields := v, change.Fields{}
		if has("name") {
			v.Name = r.GetName()
			fields["name"] = store.Change{Before: before.Name, After: v.Name}
		}
		if has("format") {
			v.Format = int64(formatOf(r.GetFormat()))
			fields["format"] = store.Change{Before: formatName(before.Format), After: formatName(v.Format)}
		}
		if has("enabled") {
			v.Enabled = r.GetEnabled()
			fields["enabled"] = store.Change{Before: before.Enabled, After: v.Enabled}
		}
		if moved {
			was, _, err := kept(s.Seal, before)
			if err != nil {
				return err
			}
			if err := keep(s.Seal, &v, t, secret); err != nil {
				return err
			}
			fields["target"] = store.Change{Before: was.place(), After: t.place()}
		}
		// A changed sink is tried at once.
		v.DueAt, v.Attempts, v.FailingSince, v.LastError = s.Now(), 0, time.Time{}, ""
		if err := taken(change.Make(ctx, s.Kit, tx, "audit_sink.update", change.UpdateAuditSink(&v), fields)); err != nil {
			return err
		}
		chain, err := chainOf(ctx, tx, v.TenantID)
		res.Sink = s.message(v, chain)
		return err
	})
}

// moved reads and tries a new target, with its secrets: those of the old one are not sent
// to a new address.
func (s *Service) moved(ctx context.Context, r *cloudv1.UpdateAuditSinkRequest, paths []string) (moved bool, t target, secret secrets, err error) {
	if !slices.ContainsFunc(paths, func(p string) bool { return slices.Contains(targetPaths, p) }) {
		return false, t, secret, nil
	}
	if t, secret, err = read(r, s.sender.egress); err != nil {
		return false, t, secret, err
	}
	v, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (store.AuditSink, error) { return find(ctx, tx, r.GetSinkId()) })
	if err != nil {
		return false, t, secret, err
	}
	if err := s.try(ctx, v, t, secret); err != nil {
		return false, t, secret, notTaken(t, err)
	}
	return true, t, secret, nil
}

// DeleteAuditSink deletes a sink.
func (s *Service) DeleteAuditSink(ctx context.Context, r *cloudv1.DeleteAuditSinkRequest) (*cloudv1.DeleteAuditSinkResponse, error) {
	res := new(cloudv1.DeleteAuditSinkResponse)
	return res, s.Write(ctx, func(tx *store.Tx) error {
		v, err := find(ctx, tx, r.GetSinkId())
		if f, ok := fault.As(err); ok && f.Code == fault.NotFound && r.GetAllowMissing() {
			return nil
		}
		if err != nil {
			return err
		}
		return change.Make(ctx, s.Kit, tx, "audit_sink.delete", change.DeleteAuditSink(v), nil)
	})
}

// TestAuditSink sends a test event. That it did not arrive is an answer, no error.
func (s *Service) TestAuditSink(ctx context.Context, r *cloudv1.TestAuditSinkRequest) (*cloudv1.TestAuditSinkResponse, error) {
	v, err := kit.Read(ctx, s.Kit, func(tx *store.Tx) (store.AuditSink, error) { return find(ctx, tx, r.GetSinkId()) })
	if err != nil {
		return nil, err
	}
	t, secret, err := kept(s.Seal, v)
	if err != nil {
		return nil, err
	}
	res := new(cloudv1.TestAuditSinkResponse)
	if err := s.try(ctx, v, t, secret); err != nil {
		res.Problem = clip(err.Error())
	} else {
		res.Delivered = true
	}
	return res, nil
}

// try sends a test event.
func (s *Service) try(ctx context.Context, v store.AuditSink, t target, secret secrets) error {
	ctx, cancel := context.WithTimeout(ctx, testTimeout)
	defer cancel()
	now, c := s.Now(), access.From(ctx)
	id := s.IDs.New(ids.Audit, now)
	line, err := lineOf(v, auditlog.Entry{
		Kind: "test", TenantID: v.TenantID, ID: id, At: auditlog.Time{Time: now}, ActorType: c.Type(), ActorID: c.ID(), Actor: c.Name,
		Action: "audit_sink.test", TargetType: "audit_sink", TargetID: v.ID, Target: v.Name, RequestID: c.RequestID, Peer: c.Peer,
	})
	if err != nil {
		return err
	}
	return s.sender.send(ctx, t, secret, batch{id: v.ID + "_" + id, at: now, object: "test-" + id + ".ndjson", lines: []string{line}, times: []time.Time{now}})
}

// notTaken names the field of the address.
func notTaken(t target, err error) error {
	field := "https.url"
	switch {
	case t.S3 != nil:
		field = "s3.endpoint"
	case t.Syslog != nil:
		field = "syslog.host"
	}
	return fault.InvalidField(field, "the test event didn't arrive: %s", clip(err.Error()))
}

func checkName(name string) error {
	if name == "" || len(name) > nameMax || strings.TrimSpace(name) != name {
		return fault.InvalidField("name", "must have 1 to %d characters, and no space at either end", nameMax)
	}
	return nil
}

func checkFormat(f cloudv1.AuditFormat) error {
	if _, known := cloudv1.AuditFormat_name[int32(f)]; !known {
		return fault.InvalidField("format", "must be AUDIT_FORMAT_NATIVE or AUDIT_FORMAT_OCSF")
	}
	return nil
}

// firstOf joins the fields of several refusals into one.
func firstOf(err error) error {
	var fields []fault.Field
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	for _, one := range joined.Unwrap() {
		f, ok := fault.As(one)
		if !ok {
			return one
		}
		fields = append(fields, f.Fields...)
	}
	return fault.InvalidFields(fields)
}

func formatOf(f cloudv1.AuditFormat) cloudv1.AuditFormat {
	return cmp.Or(f, cloudv1.AuditFormat_AUDIT_FORMAT_NATIVE)
}

func formatName(f int64) string {
	return strings.ToLower(strings.TrimPrefix(cloudv1.AuditFormat(f).String(), "AUDIT_FORMAT_"))
}

func tag(v store.AuditSink) string { return etag.Of(v.Version, v.TenantID, v.ID) }

func (s *Service) message(v store.AuditSink, chain store.AuditChain) *cloudv1.AuditSink {
	m := &cloudv1.AuditSink{
		Id: v.ID, TenantId: v.TenantID, Name: v.Name, Format: cloudv1.AuditFormat(v.Format), Enabled: v.Enabled, State: cloudv1.AuditSinkState_AUDIT_SINK_STATE_ACTIVE,
		SentSeq: v.Sent, LatestSeq: chain.Seq, SentAt: stamp(v.SentAt), FailingSince: stamp(v.FailingSince), LastError: v.LastError,
		CreatedAt: stamp(v.CreatedAt), UpdatedAt: stamp(v.UpdatedAt), Etag: tag(v),
	}
	switch {
	case !v.Enabled:
		m.State = cloudv1.AuditSinkState_AUDIT_SINK_STATE_DISABLED
	case v.Attempts > 0:
		m.State, m.NextAttemptAt = cloudv1.AuditSinkState_AUDIT_SINK_STATE_FAILING, stamp(v.DueAt)
	}
	t, _, err := kept(s.Seal, v)
	if err != nil {
		m.LastError = cmp.Or(m.LastError, "its secrets can't be read; give the target again")
	}
	switch {
	case t.HTTPS != nil:
		m.Target = &cloudv1.AuditSink_Https{Https: &cloudv1.HttpsAuditSink{Url: t.HTTPS.URL}}
	case t.S3 != nil:
		m.Target = &cloudv1.AuditSink_S3{S3: &cloudv1.S3AuditSink{
			Endpoint: t.S3.Endpoint, Region: t.S3.Region, Bucket: t.S3.Bucket, Prefix: t.S3.Prefix, AccessKeyId: t.S3.AccessKeyID,
		}}
	case t.Syslog != nil:
		m.Target = &cloudv1.AuditSink_Syslog{Syslog: &cloudv1.SyslogAuditSink{Host: t.Syslog.Host, Port: t.Syslog.Port, CaPem: t.Syslog.CA}}
	}
	return m
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
