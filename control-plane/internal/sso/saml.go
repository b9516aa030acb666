package sso

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/saml"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	entityIDMax     = 1024
	certificatesMax = 5
	attributeMax    = 512
	// warnBefore is how long before its end a certificate is warned of.
	warnBefore = 30 * 24 * time.Hour
)

// samlPaths are what an update may name.
var samlPaths = []string{
	"saml.metadata_xml", "saml.metadata_url", "saml.entity_id", "saml.sso_url", "saml.certificates", "saml.sign_requests", "saml.want_encrypted",
	"saml.allow_idp_initiated", "saml.email_attribute", "saml.name_attribute",
}

func isSAML(c store.Connection) bool { return c.Type == store.ConnectionSAML }

func typeOf(c store.Connection) cloudv1.SsoType {
	if isSAML(c) {
		return cloudv1.SsoType_SSO_TYPE_SAML
	}
	return cloudv1.SsoType_SSO_TYPE_OIDC
}

// samlGiven is what a request sets, its metadata read.
type samlGiven struct {
	settings *cloudv1.SamlSettings
	paths    []string
	metadata *saml.Provider
}

// samlGiven reads the metadata of a request, before any transaction.
func (s *Service) samlGiven(ctx context.Context, in *cloudv1.SamlSettings, paths []string) (samlGiven, error) {
	g := samlGiven{settings: in, paths: paths}
	text, address := in.GetMetadataXml(), in.GetMetadataUrl()
	if !slices.Contains(paths, "saml.metadata_xml") {
		text = ""
	}
	if !slices.Contains(paths, "saml.metadata_url") {
		address = ""
	}
	raw, field := []byte(text), "saml.metadata_xml"
	switch {
	case text == "" && address == "":
		return g, nil
	case text != "" && address != "":
		return g, fault.InvalidField("saml.metadata_url", "can't be given together with saml.metadata_xml; use one of them")
	case in.GetEntityId() != "" || in.GetSsoUrl() != "" || len(in.GetCertificates()) > 0:
		return g, fault.InvalidField(field, "has entity_id, sso_url and certificates itself; leave these out")
	case address != "":
		var err error
		field = "saml.metadata_url"
		if raw, err = s.fetchMetadata(ctx, address); err != nil {
			return g, fault.InvalidField(field, "%s", problemOf(err).text)
		}
	}
	p, err := saml.ReadMetadata(raw)
	if err != nil {
		return g, fault.InvalidField(field, "%s", err)
	}
	g.metadata = &p
	return g, nil
}

// fetchMetadata reads a document once. It isn't read again by itself: what it says then
// stays pinned, whoever the address belongs to tomorrow.
func (s *Service) fetchMetadata(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || len(address) > entityIDMax {
		return nil, providerDown(err, "must be the URL of the provider's metadata")
	}
	if err := s.Egress.CheckURL(u); err != nil {
		return nil, providerDown(err, "%s", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, providerDown(err, "must be the URL of the provider's metadata")
	}
	const what = "can't read the metadata"
	res, err := s.client.Do(r)
	if err != nil {
		return nil, unreachable(err, what)
	}
	raw, err := io.ReadAll(res.Body)
	err = errors.Join(err, res.Body.Close())
	switch {
	case err != nil:
		return nil, unreachable(err, what)
	case res.StatusCode != http.StatusOK:
		return nil, providerDown(nil, "%s: the server responded with status %d", what, res.StatusCode)
	}
	return raw, nil
}

// apply sets what the request names.
func (g samlGiven) apply(c *store.Connection) {
	in := g.settings
	for _, p := range g.paths {
		switch p {
		case "saml.entity_id":
			c.Issuer, c.SAML.MetadataURL = in.GetEntityId(), ""
		case "saml.sso_url":
			c.SAML.SSO, c.SAML.MetadataURL = in.GetSsoUrl(), ""
		case "saml.certificates":
			c.SAML.Certificates, c.SAML.MetadataURL = in.GetCertificates(), ""
		case "saml.sign_requests":
			c.SAML.SignRequests = in.GetSignRequests()
		case "saml.want_encrypted":
			c.SAML.WantEncrypted = in.GetWantEncrypted()
		case "saml.allow_idp_initiated":
			c.SAML.IdPInitiated = in.GetAllowIdpInitiated()
		case "saml.email_attribute":
			c.SAML.EmailAttribute = in.GetEmailAttribute()
		case "saml.name_attribute":
			c.SAML.NameAttribute = in.GetNameAttribute()
		}
	}
	if p := g.metadata; p != nil {
		c.Issuer, c.SAML.SSO, c.SAML.MetadataURL, c.SAML.Certificates = p.EntityID, p.SSO, in.GetMetadataUrl(), nil
		c.SAML.SignRequests = c.SAML.SignRequests || p.WantsSigned
		for _, cert := range p.Certificates {
			c.SAML.Certificates = append(c.SAML.Certificates, saml.PEM(cert))
		}
	}
}

// typed fills in what depends on the type of a new connection.
func (s *Service) typed(c *store.Connection, r *cloudv1.CreateSsoConnectionRequest, given samlGiven) error {
	switch r.GetType() {
	case cloudv1.SsoType_SSO_TYPE_UNSPECIFIED, cloudv1.SsoType_SSO_TYPE_OIDC:
		c.Type = store.ConnectionOIDC
		if r.GetSaml() != nil {
			return fault.InvalidField("saml", "is for connections of the type SSO_TYPE_SAML")
		}
		return nil
	case cloudv1.SsoType_SSO_TYPE_SAML:
	default:
		return fault.InvalidField("type", "must be SSO_TYPE_OIDC or SSO_TYPE_SAML")
	}
	if r.GetIssuer() != "" || r.GetClientId() != "" || r.GetClientSecret() != "" || len(r.GetScopes()) > 0 {
		return fault.InvalidField("issuer", "and client_id, client_secret, scopes are for OpenID Connect; a SAML connection has saml.entity_id and the other fields of saml")
	}
	c.Type = store.ConnectionSAML
	given.apply(c)
	key, certificate, err := saml.NewKey(s.URLs.SAMLMetadata(c.ID), s.Now())
	if err != nil {
		return err
	}
	c.SAML.Certificate = certificate
	return s.sealKey(c, key)
}

// checkPaths refuses fields of the other type.
func checkPaths(c store.Connection, paths []string) error {
	for _, p := range paths {
		switch {
		case isSAML(c) && slices.Contains([]string{"issuer", "client_id", "client_secret", "scopes"}, p):
			return fault.InvalidField("update_mask", "%q is for OpenID Connect, and this is a SAML connection", p)
		case !isSAML(c) && slices.Contains(samlPaths, p):
			return fault.InvalidField("update_mask", "%q is for SAML, and this is an OpenID Connect connection", p)
		}
	}
	return nil
}

// checkSAML lists what is wrong. Without the provider's settings, a connection waits for them.
func (s *Service) checkSAML(c store.Connection, check func(name, problem string)) {
	if c.Issuer != "" {
		check("saml.entity_id", textProblem(c.Issuer, entityIDMax))
	}
	if c.SAML.SSO != "" {
		check("saml.sso_url", s.signOnProblem(c.SAML.SSO))
	}
	for name, text := range map[string]string{"saml.email_attribute": c.SAML.EmailAttribute, "saml.name_attribute": c.SAML.NameAttribute} {
		if text != "" {
			check(name, textProblem(text, attributeMax))
		}
	}
	if len(c.SAML.Certificates) > certificatesMax {
		check("saml.certificates", fmt.Sprintf("can't have more than %d", certificatesMax))
		return
	}
	for i, text := range c.SAML.Certificates {
		cert, err := saml.ParseCertificate(text)
		switch {
		case err != nil:
			check("saml.certificates", fmt.Sprintf("certificate %d %s", i+1, err))
		case s.Now().After(cert.NotAfter) && len(c.SAML.Certificates) == 1:
			check("saml.certificates", "has expired; use the provider's current certificate")
		}
	}
}

// signOnProblem: the browser goes there, not we, so that a private address is fine; a script
// isn't.
func (s *Service) signOnProblem(text string) string {
	if p := textProblem(text, entityIDMax); p != "" {
		return p
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Opaque != "" || strings.ContainsAny(text, " <>\"\\") {
		return "must be the provider's sign-on URL, such as https://idp.example.com/sso/saml"
	}
	if u.Scheme == "https" || u.Scheme == "http" && s.Egress.AllowPrivate {
		return ""
	}
	return "must start with https://"
}

// tryable refuses a trial of a connection that waits for its provider's settings.
func tryable(c store.Connection) error {
	n, err := next(c)
	if err != nil || !isSAML(n) || n.Issuer != "" && n.SAML.SSO != "" && len(n.SAML.Certificates) > 0 {
		return err
	}
	return fault.New(fault.Conflict, "SAML_INCOMPLETE", "this connection has no identity provider yet; add its metadata, or its entity ID, sign-on URL and certificate")
}

// samlConnection is a connection as the wire sees it, with its key opened.
func (s *Service) samlConnection(c store.Connection) (saml.Connection, error) {
	out := saml.Connection{
		EntityID: s.URLs.SAMLMetadata(c.ID), ACS: s.URLs.SAMLACS(c.ID), Issuer: c.Issuer, SSO: c.SAML.SSO,
		SignRequests: c.SAML.SignRequests, WantEncrypted: c.SAML.WantEncrypted,
	}
	key, err := s.Seal.Open(seal.SAMLKey, c.SAMLKey)
	if err != nil {
		return out, fmt.Errorf("open the key of connection %s: %w", c.ID, err)
	}
	present, following := saml.CutKey(string(key))
	out.Key, out.Certificate, err = saml.ParseKey(present, c.SAML.Certificate)
	if err == nil && c.SAML.NextCertificate != "" {
		out.NextKey, out.NextCertificate, err = saml.ParseKey(following, c.SAML.NextCertificate)
	}
	if err != nil {
		return out, fmt.Errorf("connection %s: %w", c.ID, err)
	}
	out.Certificates, err = parseAll(c)
	return out, err
}

func parseAll(c store.Connection) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for _, text := range c.SAML.Certificates {
		cert, err := saml.ParseCertificate(text)
		if err != nil {
			return nil, fmt.Errorf("a certificate of connection %s: it %w", c.ID, err)
		}
		out = append(out, cert)
	}
	return out, nil
}

func samlMessage(c store.Connection) *cloudv1.SamlSettings {
	return &cloudv1.SamlSettings{
		MetadataUrl: c.SAML.MetadataURL, EntityId: c.Issuer, SsoUrl: c.SAML.SSO, Certificates: c.SAML.Certificates, SignRequests: c.SAML.SignRequests,
		WantEncrypted: c.SAML.WantEncrypted, AllowIdpInitiated: c.SAML.IdPInitiated, EmailAttribute: c.SAML.EmailAttribute, NameAttribute: c.SAML.NameAttribute,
	}
}

func (s *Service) samlDetails(c store.Connection) *cloudv1.SamlDetails {
	out := &cloudv1.SamlDetails{
		SpEntityId: s.URLs.SAMLMetadata(c.ID), AcsUrl: s.URLs.SAMLACS(c.ID), SpMetadataUrl: s.URLs.SAMLMetadata(c.ID), SpCertificate: c.SAML.Certificate,
		SpNextCertificate: c.SAML.NextCertificate,
	}
	all, err := parseAll(c)
	if err != nil {
		return out // It was checked when it was stored.
	}
	good := 0
	for _, cert := range all {
		sum := sha256.Sum256(cert.Raw)
		out.Certificates = append(out.Certificates, &cloudv1.SamlCertificate{
			Subject: clip(cert.Subject.String()), Fingerprint: hex.EncodeToString(sum[:]), NotBefore: timestamppb.New(cert.NotBefore), NotAfter: timestamppb.New(cert.NotAfter),
		})
		if s.Now().Add(warnBefore).Before(cert.NotAfter) {
			good++
		}
	}
	for _, cert := range all {
		day := cert.NotAfter.UTC().Format(time.DateOnly)
		switch {
		case s.Now().After(cert.NotAfter):
			out.Warnings = append(out.Warnings, fmt.Sprintf("A certificate of the identity provider expired on %s; responses signed with it are refused. Remove it, or replace it with the current one.", day))
		case !s.Now().Add(warnBefore).Before(cert.NotAfter) && good == 0:
			out.Warnings = append(out.Warnings, fmt.Sprintf("The identity provider's certificate expires on %s, and nobody can sign in after that. Add the provider's next certificate before then.", day))
		}
	}
	if own, err := saml.ParseCertificate(c.SAML.Certificate); err == nil && c.SAML.NextCertificate == "" && !s.Now().Add(warnBefore).Before(own.NotAfter) {
		out.Warnings = append(out.Warnings, fmt.Sprintf("Our certificate for this connection expires on %s, and providers may refuse signed requests after that. Replace its key before then.",
			own.NotAfter.UTC().Format(time.DateOnly)))
	}
	return out
}

// certificateWords are a certificate for the audit log; none if it isn't one.
func certificateWords(text string) string {
	cert, err := saml.ParseCertificate(text)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(cert.Raw)
	return "certificate " + hex.EncodeToString(sum[:8]) + ", expires " + cert.NotAfter.UTC().Format(time.DateOnly)
}

// samlWords are the settings for the audit log.
func samlWords(c store.Connection) []string {
	if !isSAML(c) {
		return nil
	}
	out := []string{"sso_url " + c.SAML.SSO}
	for _, text := range c.SAML.Certificates {
		if words := certificateWords(text); words != "" {
			out = append(out, words)
		}
	}
	for _, f := range []struct {
		name string
		is   bool
	}{{"sign_requests", c.SAML.SignRequests}, {"want_encrypted", c.SAML.WantEncrypted}, {"allow_idp_initiated", c.SAML.IdPInitiated}} {
		if f.is {
			out = append(out, f.name)
		}
	}
	for name, text := range map[string]string{"email_attribute": c.SAML.EmailAttribute, "name_attribute": c.SAML.NameAttribute} {
		if text != "" {
			out = append(out, name+" "+text)
		}
	}
	slices.Sort(out)
	return out
}
