package sso

import (
	"context"
	"fmt"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/change"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/saml"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// RotateSamlKey makes a SAML connection's next key, or puts it in the place of the present one.
func (s *Service) RotateSamlKey(ctx context.Context, r *cloudv1.RotateSamlKeyRequest) (*cloudv1.RotateSamlKeyResponse, error) {
	c := access.From(ctx)
	res := &cloudv1.RotateSamlKeyResponse{}
	return res, s.Write(ctx, func(tx *store.Tx) error {
		before, err := s.findToChange(ctx, tx, r.GetConnectionId(), r.GetEtag())
		if err != nil {
			return err
		}
		if !isSAML(before) {
			return fault.New(fault.Conflict, "NOT_SAML", "this is an OpenID Connect connection, which has no key of its own")
		}
		after, action, err := before, "sso.create_key", error(nil)
		if r.GetFinish() {
			action = "sso.switch_key"
			err = s.finishKey(&after)
		} else if before.SAML.NextCertificate == "" {
			err = s.nextKey(&after)
		}
		if err != nil {
			return err
		}
		if after.SAMLKey != before.SAMLKey {
			after.UpdatedAt = s.Now()
			err = change.Make(ctx, s.Kit, tx, action, change.UpdateConnection(&after), keyFields(before.SAML, after.SAML))
		}
		res.Connection = s.message(after, c.Tenant)
		return err
	})
}

// nextKey makes a key beside the present one.
func (s *Service) nextKey(c *store.Connection) error {
	present, err := s.Seal.Open(seal.SAMLKey, c.SAMLKey)
	if err != nil {
		return fmt.Errorf("open the key of connection %s: %w", c.ID, err)
	}
	key, certificate, err := saml.NewKey(s.URLs.SAMLMetadata(c.ID), s.Now())
	if err != nil {
		return err
	}
	c.SAML.NextCertificate = certificate
	return s.sealKey(c, string(present)+key)
}

// finishKey deletes the present key in favor of the next one.
func (s *Service) finishKey(c *store.Connection) error {
	if c.SAML.NextCertificate == "" {
		return fault.New(fault.Conflict, "NO_NEXT_KEY", "this connection has no next key; make one first, and give your provider its certificate")
	}
	keys, err := s.Seal.Open(seal.SAMLKey, c.SAMLKey)
	if err != nil {
		return fmt.Errorf("open the keys of connection %s: %w", c.ID, err)
	}
	_, following := saml.CutKey(string(keys))
	c.SAML.Certificate, c.SAML.NextCertificate = c.SAML.NextCertificate, ""
	return s.sealKey(c, following)
}

func (s *Service) sealKey(c *store.Connection, keys string) (err error) {
	if c.SAMLKey, err = s.Seal.Seal(seal.SAMLKey, []byte(keys)); err != nil {
		return fmt.Errorf("seal the key of a SAML connection: %w", err)
	}
	return nil
}

func keyFields(before, after store.SAML) change.Fields {
	out := change.Fields{}
	for name, pair := range map[string][2]string{"sp_certificate": {before.Certificate, after.Certificate}, "sp_next_certificate": {before.NextCertificate, after.NextCertificate}} {
		if pair[0] != pair[1] {
			out[name] = store.Change{Before: certificateWords(pair[0]), After: certificateWords(pair[1])}
		}
	}
	return out
}
