package domains

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/etag"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/ids"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/once"
	"github.com/corvo-cloud/corvo/control-plane/internal/ratelimit"
	"github.com/corvo-cloud/corvo/control-plane/internal/recurring"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// domainsMax is for a company of many brands.
	domainsMax = 100
	// VerifiesPerMinuteDefault is for people who wait for their DNS, and for programs.
	VerifiesPerMinuteDefault = 60
)

// Service is the use cases and the loop.
type Service struct {
	kit.Kit
	// VerifiesPerMinute is how often a tenant may make us ask DNS; 0: no limit.
	VerifiesPerMinute int

	resolver Resolver
	loop     *recurring.Loop
}

// New makes a Service.
func New(k kit.Kit, r Resolver) *Service {
	s := &Service{Kit: k, VerifiesPerMinute: VerifiesPerMinuteDefault, resolver: r}
	s.loop = recurring.New(k, recurring.Work{Name: "domains", Every: tick, Lease: leaseFor, Failed: "can't check domains", Pass: s.pass})
	return s
}

// CreateDomain claims a domain.
func (s *Service) CreateDomain(ctx context.Context, r *cloudv1.CreateDomainRequest) (*cloudv1.CreateDomainResponse, error) {
	name, err := ParseName(r.GetName())
	if err != nil {
		return nil, fault.InvalidField("name", "%s", err)
	}
	if isOwn(s.URLs, name) {
		return nil, fault.InvalidField("name", "is a domain of this service; enter your own domain")
	}
	call, err := once.Of(ctx, "CreateDomain", r)
	if err != nil {
		return nil, err
	}
	res := new(cloudv1.CreateDomainResponse)
	_, err = call.Do(ctx, s.Kit, res, func(tx *store.Tx) error {
		now := s.Now()
		token, _ := seal.NewToken("")
		v := store.Domain{
			TenantID: access.From(ctx).TenantID, ID: s.IDs.New(ids.Domain, now), Name: name, Token: token, ConnectionID: r.GetConnectionId(),
			CreatedAt: now, UpdatedAt: now, Version: 1,
		}
		if err := connected(ctx, tx, v); err != nil {
			return err
		}
		all, err := tx.ListDomains(ctx, v.TenantID)
		if err != nil {
			return err
		}
		if len(all) >= domainsMax {
			return fault.New(fault.Exhausted, "DOMAIN_LIMIT", "a tenant can have at most %d domains; delete one first", domainsMax)
		}
		res.Domain = message(v)
		err = change.Make(ctx, s.Kit, tx, "domain.create", change.InsertDomain(v), fields(store.Domain{}, v))
		if errors.Is(err, store.ErrExists) {
			return fault.New(fault.Exists, "DOMAIN_EXISTS", "this tenant has the domain %s already", name)
		}
		return err
	})
	return res, err
}

// connected refuses a connection that is not the tenant's.
func connected(ctx context.Context, tx *store.Tx, v store.Domain) error {
	if v.ConnectionID == "" {
		return nil
	}
	_, err := tx.GetConnection(ctx, v.TenantID, v.ConnectionID)
	if errors.Is(err, store.ErrNotFound) {
		return fault.InvalidField("connection_id", "no connection of this tenant has the id %q", v.ConnectionID)
	}
	return err
}

// find gives a domain of a tenant by its id or name.
func find(ctx context.Context, tx *store.Tx, tenantID, given string) (store.Domain, error) {
	v, err := tx.GetDomain(ctx, tenantID, given)
	if errors.Is(err, store.ErrNotFound) && !ids.Is(ids.Domain, given) {
		if name, wrong := normal(given); wrong == nil {
			v, err = tx.GetDomainByName(ctx, tenantID, name)
		}
	}
	if errors.Is(err, store.ErrNotFound) {
		return v, fault.Missing("domain")
	}
	return v, err
}

// GetDomain finds a domain.
func (s *Service) GetDomain(ctx context.Context, r *cloudv1.GetDomainRequest) (*cloudv1.GetDomainResponse, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.GetDomainResponse, error) {
		v, err := find(ctx, tx, access.From(ctx).TenantID, r.GetDomainId())
		if err != nil {
			return nil, err
		}
		return &cloudv1.GetDomainResponse{Domain: message(v)}, nil
	})
}

// ListDomains lists all.
func (s *Service) ListDomains(ctx context.Context, _ *cloudv1.ListDomainsRequest) (*cloudv1.ListDomainsResponse, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.ListDomainsResponse, error) {
		all, err := tx.ListDomains(ctx, access.From(ctx).TenantID)
		res := new(cloudv1.ListDomainsResponse)
		for _, v := range all {
			res.Domains = append(res.Domains, message(v))
		}
		return res, err
	})
}

// VerifyDomain looks for the record. That it is not there is a refusal, which says so.
func (s *Service) VerifyDomain(ctx context.Context, r *cloudv1.VerifyDomainRequest) (*cloudv1.VerifyDomainResponse, error) {
	tenantID := access.From(ctx).TenantID
	v, err := store.Get(ctx, func(ctx context.Context, f func(*store.Tx) error) error { return s.Store.Tenant(ctx, tenantID, f) },
		func(tx *store.Tx) (store.Domain, error) {
			limit := ratelimit.Limit{Bucket: "domain.verify:" + tenantID, Window: time.Minute, Max: s.VerifiesPerMinute, What: "DNS checks for this tenant"}
			if err := ratelimit.Count(ctx, tx, s.Now(), limit); err != nil {
				return store.Domain{}, err
			}
			return find(ctx, tx, tenantID, r.GetDomainId())
		})
	if err != nil {
		return nil, err
	}
	seen, looked := s.look(ctx, v.Name)
	res := new(cloudv1.VerifyDomainResponse)
	// Of the service, since the domain may be another tenant's.
	err = s.Store.Service(ctx, func(tx *store.Tx) error {
		v, err := find(ctx, tx, tenantID, v.ID) // As it is now.
		if err != nil {
			return err
		}
		if looked != nil {
			return s.unanswered(ctx, tx, v, looked)
		}
		if err := s.verify(ctx, tx, &v, seen); err != nil {
			return err
		}
		res.Domain = message(v)
		return nil
	})
	if errors.Is(err, store.ErrExists) { // Another tenant was quicker, by a moment.
		err = taken(v)
	}
	s.Wake()
	return res, err
}

func taken(v store.Domain) error {
	return fault.New(fault.Conflict, "DOMAIN_TAKEN",
		"another tenant has verified %s, and its TXT record is still there; if the domain is yours, delete the other TXT records at %s and verify again", v.Name, TXTName(v.Name))
}

// refused notes why a domain could not be verified, and refuses.
func (s *Service) refused(ctx context.Context, tx *store.Tx, v store.Domain, refusal error) error {
	v.CheckedAt, v.Problem = s.Now(), refusal.Error()
	if err := tx.NoteDomain(ctx, v); err != nil {
		return err
	}
	return store.CommitDespite(refusal)
}

func (s *Service) unanswered(ctx context.Context, tx *store.Tx, v store.Domain, err error) error {
	s.Log.InfoContext(ctx, "can't look up the record of a domain", "domain", v.Name, "error", err)
	return s.refused(ctx, tx, v, fault.New(fault.Unavailable, "DNS_UNAVAILABLE", "%s; try again in a minute", dnsProblem(v)))
}

// dnsProblem does not repeat the error, which tells of our own network.
func dnsProblem(v store.Domain) string {
	return fmt.Sprintf("DNS gave no answer for %s", TXTName(v.Name))
}

// verify settles what DNS says about a domain that its tenant asked about.
func (s *Service) verify(ctx context.Context, tx *store.Tx, v *store.Domain, seen records) error {
	if !seen.prove(*v) {
		refusal := fault.New(fault.Conflict, "RECORD_NOT_FOUND", "%s; set it to %s (a new record can take some minutes to be seen)", seen.missing(*v), TXTValue(v.Token))
		if v.VerifiedAt.IsZero() {
			return s.refused(ctx, tx, *v, refusal)
		}
		if err := s.gone(ctx, tx, v, seen); err != nil {
			return err
		}
		return store.CommitDespite(refusal)
	}
	if !v.VerifiedAt.IsZero() {
		return s.there(ctx, tx, v)
	}
	holder, err := tx.HolderOfDomain(ctx, v.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return err
	case seen.prove(holder):
		return s.refused(ctx, tx, *v, taken(*v))
	default:
		if err := s.lose(ctx, tx, holder, "another tenant has proved that the domain is theirs, and your TXT record isn't there any more"); err != nil {
			return err
		}
	}
	now := s.Now()
	before := *v
	v.VerifiedAt, v.CheckedAt, v.DueAt, v.Problem, v.Attempts = now, now, now.Add(s.spread(recheckEvery)), "", 0
	return change.Make(ctx, s.Kit, tx, "domain.verify", change.UpdateDomain(v), fields(before, *v))
}

// UpdateDomain changes the fields that the mask names.
func (s *Service) UpdateDomain(ctx context.Context, r *cloudv1.UpdateDomainRequest) (*cloudv1.UpdateDomainResponse, error) {
	if err := fault.InvalidMask(r.GetUpdateMask().GetPaths(), "connection_id"); err != nil {
		return nil, err
	}
	res := new(cloudv1.UpdateDomainResponse)
	return res, s.Write(ctx, func(tx *store.Tx) error {
		v, err := find(ctx, tx, access.From(ctx).TenantID, r.GetDomainId())
		if err != nil {
			return err
		}
		if err := etag.Check(r.GetEtag(), tag(v), "this domain"); err != nil {
			return err
		}
		before := v
		v.ConnectionID = r.GetConnectionId()
		if err := connected(ctx, tx, v); err != nil {
			return err
		}
		if err := change.Make(ctx, s.Kit, tx, "domain.update", change.UpdateDomain(&v), fields(before, v)); err != nil {
			return err
		}
		res.Domain = message(v)
		return nil
	})
}

// DeleteDomain releases a domain.
func (s *Service) DeleteDomain(ctx context.Context, r *cloudv1.DeleteDomainRequest) (*cloudv1.DeleteDomainResponse, error) {
	res := new(cloudv1.DeleteDomainResponse)
	return res, s.Write(ctx, func(tx *store.Tx) error {
		v, err := find(ctx, tx, access.From(ctx).TenantID, r.GetDomainId())
		if f, ok := fault.As(err); ok && f.Code == fault.NotFound && r.GetAllowMissing() {
			return nil
		}
		if err != nil {
			return err
		}
		return change.Make(ctx, s.Kit, tx, "domain.delete", change.DeleteDomain(v), nil)
	})
}

// FindSignIn tells where the owner of an address signs in, by its domain alone.
func (s *Service) FindSignIn(ctx context.Context, r *cloudv1.FindSignInRequest) (*cloudv1.FindSignInResponse, error) {
	res := new(cloudv1.FindSignInResponse)
	if !strings.Contains(r.GetEmail(), "@") {
		return nil, fault.InvalidField("email", "enter an email address, such as ada@example.com")
	}
	name, ok := ofAddress(r.GetEmail())
	if !ok {
		return res, nil // What is wrong with it is said by whoever would mail to it.
	}
	v, err := store.Get(ctx, s.Store.ReadService, func(tx *store.Tx) (store.DomainSignIn, error) { return tx.FindDomainSignIn(ctx, name) })
	if errors.Is(err, store.ErrNotFound) || err == nil && v.Enabled == 0 {
		return res, nil
	}
	if err != nil {
		return nil, err
	}
	res.SsoUrl = s.URLs.OIDCStart(v.Tenant)
	if v.ConnectionID != "" {
		res.SsoUrl += "&connection=" + v.ConnectionID
	}
	return res, nil
}

func fields(before, after store.Domain) change.Fields {
	out := change.Fields{}
	if before.ID == "" {
		out["name"] = store.Change{After: after.Name}
	}
	if before.ConnectionID != after.ConnectionID {
		out["connection_id"] = store.Change{Before: before.ConnectionID, After: after.ConnectionID}
	}
	if was, is := stateWord(before), stateWord(after); was != is && before.ID != "" {
		out["state"] = store.Change{Before: was, After: is}
	}
	if before.ID != "" && after.Problem != "" && before.Problem != after.Problem {
		out["problem"] = store.Change{After: after.Problem}
	}
	return out
}

func state(v store.Domain) cloudv1.DomainState {
	switch {
	case v.VerifiedAt.IsZero():
		return cloudv1.DomainState_DOMAIN_STATE_PENDING
	case !v.MissingSince.IsZero():
		return cloudv1.DomainState_DOMAIN_STATE_RECORD_MISSING
	}
	return cloudv1.DomainState_DOMAIN_STATE_VERIFIED
}

func stateWord(v store.Domain) string {
	return strings.ToLower(strings.TrimPrefix(state(v).String(), "DOMAIN_STATE_"))
}

func tag(v store.Domain) string { return etag.Of(v.Version, v.TenantID, v.ID) }

func message(v store.Domain) *cloudv1.Domain {
	m := &cloudv1.Domain{
		Id: v.ID, TenantId: v.TenantID, Name: v.Name, State: state(v), TxtName: TXTName(v.Name), TxtValue: TXTValue(v.Token), ConnectionId: v.ConnectionID,
		VerifiedAt: stamp(v.VerifiedAt), CheckedAt: stamp(v.CheckedAt), Problem: v.Problem, MissingSince: stamp(v.MissingSince),
		CreatedAt: stamp(v.CreatedAt), UpdatedAt: stamp(v.UpdatedAt), Etag: tag(v),
	}
	if !v.MissingSince.IsZero() {
		m.UnverifiedAt = stamp(v.MissingSince.Add(grace))
	}
	return m
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
