package saml

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/url"
	"sync"
	"time"

	"github.com/beevik/etree"
	library "github.com/crewjam/saml"
	dsig "github.com/russellhaering/goxmldsig"
)

// clock guards the variables in which the library keeps its clock and its patience.
var clock sync.Mutex

// atTime runs f with the library's clock at an instant.
func atTime(now time.Time, f func()) {
	clock.Lock()
	defer clock.Unlock()
	before := library.TimeNow
	defer func() { library.TimeNow = before }()
	library.TimeNow = func() time.Time { return now }
	library.MaxIssueDelay, library.MaxClockSkew = ageMax+SkewMax, SkewMax
	f()
}

// verdict tells the library what we found out about the signatures. Its own check would go
// by what the response says of its key.
type verdict map[string]bool

var errNotSigned = errors.New("not signed")

// VerifySignature implements library.SignatureVerifier.
func (v verdict) VerifySignature(_ *dsig.ValidationContext, el *etree.Element) error {
	if v[el.Tag] {
		return nil
	}
	return errNotSigned
}

// secondReading has the library read the response, with its assertion decrypted, and demands
// that it finds what we found.
func (c Connection) secondReading(root, plain *etree.Element, want Expected, first Assertion) error {
	response := root.Copy()
	if sealed := child(response, assertion, "EncryptedAssertion"); sealed != nil {
		response.RemoveChild(sealed)
		response.AddChild(plain.Copy())
	}
	raw, err := write(response)
	if err != nil {
		return err
	}
	sp, err := c.provider()
	if err != nil {
		return err
	}
	sp.SignatureVerifier = verdict{
		"Response":  child(root, xmldsig, "Signature") != nil,
		"Assertion": child(plain, xmldsig, "Signature") != nil,
	}
	var second *library.Assertion
	atTime(want.Now, func() { second, err = sp.ParseXMLResponse(raw, []string{want.RequestID}, sp.AcsURL) })
	if err != nil {
		return refuse("a second reading refused it")
	}
	if !agree(first, second) {
		return refuse("two readings of it differ")
	}
	return nil
}

func agree(first Assertion, second *library.Assertion) bool {
	if second.ID != first.ID || second.Issuer.Value != first.Issuer || second.Subject == nil || second.Subject.NameID == nil {
		return false
	}
	n := 0
	for _, s := range second.AttributeStatements {
		n += len(s.Attributes)
	}
	return second.Subject.NameID.Value == first.Subject && n >= len(first.Attributes)
}

// provider is the connection as the library sees it. Its AllowIDPInitiated stays off: with it,
// no response would be held against its request.
func (c Connection) provider() (*library.ServiceProvider, error) {
	acs, err := url.Parse(c.ACS)
	if err != nil {
		return nil, refuse("the connection's ACS URL isn't a URL")
	}
	keys := make([]library.KeyDescriptor, len(c.Certificates))
	for i, cert := range c.Certificates {
		keys[i] = keyDescriptor("signing", cert)
	}
	sp := &library.ServiceProvider{
		EntityID: c.EntityID, Key: c.Key, Certificate: c.Certificate, AcsURL: *acs,
		IDPMetadata: &library.EntityDescriptor{EntityID: c.Issuer, IDPSSODescriptors: []library.IDPSSODescriptor{{
			SSODescriptor:        library.SSODescriptor{RoleDescriptor: library.RoleDescriptor{KeyDescriptors: keys}},
			SingleSignOnServices: []library.Endpoint{{Binding: library.HTTPRedirectBinding, Location: c.SSO}},
		}}},
	}
	if c.SignRequests {
		sp.SignatureMethod = dsig.RSASHA256SignatureMethod
	}
	return sp, nil
}

func keyDescriptor(use string, cert *x509.Certificate) library.KeyDescriptor {
	return library.KeyDescriptor{Use: use, KeyInfo: library.KeyInfo{
		X509Data: library.X509Data{X509Certificates: []library.X509Certificate{{Data: base64.StdEncoding.EncodeToString(cert.Raw)}}},
	}}
}
