package directory

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/once"
	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
	"github.com/corvo-cloud/corvo/control-plane/internal/principals"
	"github.com/corvo-cloud/corvo/control-plane/internal/scim"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
	"github.com/corvo-cloud/corvo/control-plane/internal/tenancy"
	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
)

const (
	// tokensMax lets one be replaced.
	tokensMax        = 2
	tokenLifeDefault = 365 * 24 * time.Hour
	tokenLifeMax     = 730 * 24 * time.Hour
)

// Service is the use cases of directory sync, and its door.
type Service struct {
	kit.Kit
	door *door
}

// New makes a Service.
func New(k kit.Kit) *Service {
	s := &Service{Kit: k}
	s.door = newDoor(s)
	return s
}

// URL is the endpoint that directories call.
func (s *Service) URL() string { return s.URLs.Public + scim.Base }

func connection(ctx context.Context, tx *store.Tx, id string) (store.Connection, error) {
	c, err := tx.GetConnection(ctx, access.From(ctx).TenantID, id)
	if errors.Is(err, store.ErrNotFound) {
		err = fault.Missing("connection")
	}
	return c, err
}

// GetDirectorySync tells how the directory sync of a connection goes.
func (s *Service) GetDirectorySync(ctx context.Context, r *cloudv1.GetDirectorySyncRequest) (*cloudv1.GetDirectorySyncResponse, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.GetDirectorySyncResponse, error) {
		c, err := connection(ctx, tx, r.GetConnectionId())
		if err != nil {
			return nil, err
		}
		all, active, err := tx.CountDirectoryUsers(ctx, c.TenantID, c.ID)
		if err != nil {
			return nil, err
		}
		groups, err := tx.CountGroupsOfConnection(ctx, c.TenantID, c.ID)
		if err != nil {
			return nil, err
		}
		state, err := tx.GetDirectoryState(ctx, c.TenantID, c.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		return &cloudv1.GetDirectorySyncResponse{Sync: &cloudv1.DirectorySync{
			ConnectionId: c.ID, EndpointUrl: s.URL(), Users: int32(all), ActiveUsers: int32(active), Groups: int32(groups),
			LastCallAt: stamp(state.LastCallAt), LastErrorAt: stamp(state.LastErrorAt), LastError: state.LastError,
		}}, nil
	})
}

// ListScimTokens lists a connection's tokens.
func (s *Service) ListScimTokens(ctx context.Context, r *cloudv1.ListScimTokensRequest) (*cloudv1.ListScimTokensResponse, error) {
	return kit.Read(ctx, s.Kit, func(tx *store.Tx) (*cloudv1.ListScimTokensResponse, error) {
		c, err := connection(ctx, tx, r.GetConnectionId())
		if err != nil {
			return nil, err
		}
		all, err := tx.ListScimTokens(ctx, c.TenantID, c.ID)
		res := &cloudv1.ListScimTokensResponse{}
		for _, t := range all {
			res.Tokens = append(res.Tokens, tokenMessage(t))
		}
		return res, err
	})
}

func tokenMessage(t store.ScimToken) *cloudv1.ScimToken {
	return &cloudv1.ScimToken{
		Id: t.ID, ConnectionId: t.ConnectionID, Prefix: "corvo_scim_" + t.ID[len("key_"):], CreatedBy: t.CreatedBy,
		CreatedAt: stamp(t.CreatedAt), ExpiresAt: stamp(t.ExpiresAt), LastUsedAt: stamp(t.LastUsedAt),
	}
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// CreateScimToken makes a token for a connection's directory, or takes over one that the
// caller made.
func (s *Service) CreateScimToken(ctx context.Context, r *cloudv1.CreateScimTokenRequest) (*cloudv1.CreateScimTokenResponse, error) {
	call, err := once.Of(ctx, "CreateScimToken", r)
	if err != nil {
		return nil, err
	}
	ends, err := s.expiry(r)
	if err != nil {
		return nil, err
	}
	id, digest, secret, err := newToken(r)
	if err != nil {
		return nil, err
	}
	res := new(cloudv1.CreateScimTokenResponse)
	repeated, err := call.Do(ctx, s.Kit, res, func(tx *store.Tx) error {
		c, err := connection(ctx, tx, r.GetConnectionId())
		if err != nil {
			return err
		}
		if err := mayMake(ctx, tx, c, ends); err != nil {
			return err
		}
		if err := plans.Feature(ctx, tx, c.TenantID, s.Now(), plans.FeatureSCIM); err != nil {
			return err
		}
		if err := s.room(ctx, tx, c); err != nil {
			return err
		}
		t := store.ScimToken{
			TenantID: c.TenantID, ID: id, ConnectionID: c.ID, Digest: hex.EncodeToString(digest), CreatedBy: access.From(ctx).ID(), CreatedAt: s.Now(), ExpiresAt: ends,
		}
		res.Token = tokenMessage(t)
		err = change.Make(ctx, s.Kit, tx, "directory_token.create", change.InsertScimToken(t, c.Name), change.Fields{"expires_at": {After: ends.UTC().Format(time.RFC3339)}})
		if errors.Is(err, store.ErrExists) {
			return fault.New(fault.Exists, "TOKEN_EXISTS", "a token with the id %s already exists; generate a new one", t.ID)
		}
		return err
	})
	if err == nil && !repeated {
		res.Secret = secret
	}
	return res, err
}

// mayMake refuses a token that gives more, for longer or from more places than the caller has.
func mayMake(ctx context.Context, tx *store.Tx, c store.Connection, ends time.Time) error {
	if err := principals.MayVouch(ctx, tx, c); err != nil {
		return err
	}
	return tenancy.MayMakeToken(ctx, tx, ends)
}

// newToken is what is kept of a token. The secret is empty if the caller has it.
func newToken(r *cloudv1.CreateScimTokenRequest) (id string, digest []byte, secret string, _ error) {
	if r.GetTokenId() == "" && len(r.GetDigest()) == 0 {
		made, err := apikey.Generate(apikey.SCIM)
		sum := made.Digest()
		return made.ID(), sum[:], made.Reveal(), err
	}
	var wrong []fault.Field
	if !apikey.IsID(r.GetTokenId()) {
		wrong = append(wrong, fault.Field{Name: "token_id", Problem: "must be key_ followed by the 12 characters of the token's id; set both this and digest, or neither"})
	}
	if !apikey.IsDigest(r.GetDigest()) {
		wrong = append(wrong, fault.Field{Name: "digest", Problem: "must be the 32 bytes of the token's SHA-256 digest"})
	}
	return r.GetTokenId(), r.GetDigest(), "", fault.InvalidFields(wrong)
}

// UpdateScimToken moves the end of a token that works.
func (s *Service) UpdateScimToken(ctx context.Context, r *cloudv1.UpdateScimTokenRequest) (*cloudv1.UpdateScimTokenResponse, error) {
	ends, err := s.end(r.GetExpiresAt())
	if err != nil {
		return nil, err
	}
	res := new(cloudv1.UpdateScimTokenResponse)
	return res, s.Write(ctx, func(tx *store.Tx) error {
		t, c, err := token(ctx, tx, r.GetTokenId())
		if err != nil {
			return err
		}
		if !t.RevokedAt.IsZero() || !s.Now().Before(t.ExpiresAt) {
			return fault.New(fault.Conflict, "TOKEN_ENDED", "this token was revoked or has expired; create a new one")
		}
		if ends.After(t.ExpiresAt) {
			if err := mayMake(ctx, tx, c, ends); err != nil {
				return err
			}
		}
		was := t.ExpiresAt
		t.ExpiresAt = ends
		res.Token = tokenMessage(t)
		if ends.Equal(was) {
			return nil
		}
		return change.Make(ctx, s.Kit, tx, "directory_token.update", change.UpdateScimToken(t, c.Name),
			change.Fields{"expires_at": {Before: was.UTC().Format(time.RFC3339), After: ends.UTC().Format(time.RFC3339)}})
	})
}

func (s *Service) expiry(r *cloudv1.CreateScimTokenRequest) (time.Time, error) {
	if r.GetExpiresAt() == nil {
		return s.Now().Add(tokenLifeDefault), nil
	}
	return s.end(r.GetExpiresAt())
}

func (s *Service) end(given *timestamppb.Timestamp) (time.Time, error) {
	at, now := given.AsTime(), s.Now()
	if given.CheckValid() != nil || !at.After(now) || at.After(now.Add(tokenLifeMax)) {
		return at, fault.InvalidField("expires_at", "must be a time in the future, at most 730 days from now")
	}
	return at, nil
}

// room refuses a third token that works.
func (s *Service) room(ctx context.Context, tx *store.Tx, c store.Connection) error {
	all, err := tx.ListScimTokens(ctx, c.TenantID, c.ID)
	living := 0
	for _, t := range all {
		if s.Now().Before(t.ExpiresAt) {
			living++
		}
	}
	if err == nil && living >= tokensMax {
		err = fault.New(fault.Conflict, "LIMIT", "a connection can't have more than %d tokens; revoke the one that your directory no longer uses", tokensMax)
	}
	return err
}

// RevokeScimToken ends a token.
func (s *Service) RevokeScimToken(ctx context.Context, r *cloudv1.RevokeScimTokenRequest) (*cloudv1.RevokeScimTokenResponse, error) {
	return &cloudv1.RevokeScimTokenResponse{}, s.Write(ctx, func(tx *store.Tx) error {
		t, c, err := token(ctx, tx, r.GetTokenId())
		if err != nil || !t.RevokedAt.IsZero() {
			return err
		}
		return change.Make(ctx, s.Kit, tx, "directory_token.revoke", change.RevokeScimToken(t, c.Name), nil)
	})
}

// token finds one of the tenant's, and its connection. Revoked ones are found too.
func token(ctx context.Context, tx *store.Tx, id string) (t store.ScimToken, c store.Connection, _ error) {
	t, err := tx.GetScimToken(ctx, access.From(ctx).TenantID, id)
	if errors.Is(err, store.ErrNotFound) {
		return t, c, fault.Missing("token")
	}
	if err != nil {
		return t, c, err
	}
	c, err = connection(ctx, tx, t.ConnectionID)
	return t, c, err
}
