package saml

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	library "github.com/crewjam/saml"
)

// MetadataBytesMax bounds a provider's metadata.
const MetadataBytesMax = 256 << 10

// Provider is what a provider's metadata says.
type Provider struct {
	EntityID, SSO string
	Certificates  []*x509.Certificate
	// WantsSigned: it takes signed requests only.
	WantsSigned bool
}

// ReadMetadata reads a provider's metadata. Its signature, if it has one, says nothing here:
// whoever pastes or names it vouches for it. Errors are for people.
func ReadMetadata(raw []byte) (p Provider, err error) {
	defer func() {
		if recover() != nil {
			p, err = Provider{}, errors.New("can't be read")
		}
	}()
	if err := checkMetadata(raw); err != nil {
		return Provider{}, err
	}
	var d library.EntityDescriptor
	if err := xml.Unmarshal(raw, &d); err != nil {
		return Provider{}, errors.New("must be the provider's SAML 2.0 metadata, one EntityDescriptor")
	}
	var role *library.IDPSSODescriptor
	for i, r := range d.IDPSSODescriptors {
		if slices.Contains(strings.Fields(r.ProtocolSupportEnumeration), protocol) {
			if role != nil {
				return Provider{}, errors.New("describes more than one identity provider")
			}
			role = &d.IDPSSODescriptors[i]
		}
	}
	if role == nil {
		return Provider{}, errors.New("describes no SAML 2.0 identity provider (IDPSSODescriptor); it may be that of an application")
	}
	p = Provider{EntityID: strings.TrimSpace(d.EntityID), WantsSigned: role.WantAuthnRequestsSigned != nil && *role.WantAuthnRequestsSigned}
	for _, s := range role.SingleSignOnServices {
		if s.Binding == library.HTTPRedirectBinding {
			p.SSO = s.Location
			break
		}
	}
	p.Certificates, err = signing(role)
	switch {
	case err != nil:
		return Provider{}, err
	case p.EntityID == "":
		return Provider{}, errors.New("has no entityID")
	case p.SSO == "":
		return Provider{}, errors.New("has no SingleSignOnService with the binding HTTP-Redirect")
	case len(p.Certificates) == 0:
		return Provider{}, errors.New("has no certificate for signing")
	}
	return p, nil
}

// checkMetadata refuses what could make a parser do more than read. Comments are common here.
func checkMetadata(raw []byte) error {
	if len(raw) > MetadataBytesMax {
		return fmt.Errorf("is larger than %d KB", MetadataBytesMax>>10)
	}
	d := xml.NewDecoder(bytes.NewReader(raw))
	depth := 0
	for {
		token, err := d.RawToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errors.New("isn't well-formed XML")
		}
		switch token.(type) {
		case xml.Directive:
			return errors.New("contains a document type or an entity, which isn't allowed")
		case xml.StartElement:
			if depth++; depth > depthMax {
				return errors.New("is nested too deeply")
			}
		case xml.EndElement:
			depth--
		}
	}
}

func signing(role *library.IDPSSODescriptor) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for _, k := range role.KeyDescriptors {
		if k.Use != "" && k.Use != "signing" {
			continue
		}
		for _, data := range k.KeyInfo.X509Data.X509Certificates {
			raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(data.Data), ""))
			if err != nil {
				return nil, errors.New("has a certificate that can't be read")
			}
			c, err := x509.ParseCertificate(raw)
			if err != nil {
				return nil, errors.New("has a certificate that can't be read")
			}
			if !slices.ContainsFunc(out, c.Equal) {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// Metadata is ours for this connection's provider. It offers no single logout. Beside a next key,
// the provider takes signatures of both, and already encrypts for the next one, so that nothing
// that it does rests on the present one when that is deleted.
func (c Connection) Metadata(now time.Time) ([]byte, error) {
	acs, err := url.Parse(c.ACS)
	if err != nil {
		return nil, fmt.Errorf("write SAML metadata: %w", err)
	}
	keys := []library.KeyDescriptor{keyDescriptor("signing", c.Certificate)}
	if c.NextCertificate != nil {
		keys = append(keys, keyDescriptor("signing", c.NextCertificate))
	}
	yes, encryption := true, keyDescriptor("encryption", c.Rotated().Certificate)
	for _, a := range []string{xmlenc11 + "aes256-gcm", xmlenc11 + "aes128-gcm", xmlenc + "aes256-cbc", xmlenc + "aes128-cbc", xmlenc + "rsa-oaep-mgf1p"} {
		encryption.EncryptionMethods = append(encryption.EncryptionMethods, library.EncryptionMethod{Algorithm: a})
	}
	d := library.EntityDescriptor{
		EntityID: c.EntityID, ValidUntil: now.Add(metadataLife),
		SPSSODescriptors: []library.SPSSODescriptor{{
			SSODescriptor: library.SSODescriptor{RoleDescriptor: library.RoleDescriptor{
				ProtocolSupportEnumeration: protocol,
				KeyDescriptors:             append(keys, encryption),
			}},
			AuthnRequestsSigned: &c.SignRequests, WantAssertionsSigned: &yes,
			AssertionConsumerServices: []library.IndexedEndpoint{{Binding: library.HTTPPostBinding, Location: acs.String(), Index: 1, IsDefault: &yes}},
		}},
	}
	raw, err := xml.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write SAML metadata: %w", err)
	}
	return append([]byte(xml.Header), raw...), nil
}

// metadataLife is how long a provider may keep our metadata without reading it again.
const metadataLife = 30 * 24 * time.Hour
