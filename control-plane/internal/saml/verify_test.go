package saml

import (
	"bytes"
	"compress/flate"
	"crypto/x509"
	"encoding/base64"
	"encoding/xml"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	library "github.com/crewjam/saml"
	dsig "github.com/russellhaering/goxmldsig"

	"github.com/corvo-cloud/corvo/control-plane/internal/saml/samltest"
)

const (
	acs       = "https://app.corvo.test/auth/saml/sso_1/acs"
	entityID  = "https://app.corvo.test/auth/saml/sso_1/metadata"
	requestID = "id-request"
)

var now = time.Date(2026, time.November, 20, 12, 0, 0, 0, time.UTC)

// pair is a connection and its provider.
type pair struct {
	idp  *samltest.IdP
	conn Connection
}

func newPair(t testing.TB) pair {
	t.Helper()
	p := pair{idp: samltest.New(t, "https://idp.example", now)}
	keyPEM, certPEM, err := NewKey(entityID, now)
	if err != nil {
		t.Fatal(err)
	}
	key, cert, err := ParseKey(keyPEM, certPEM)
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadMetadata([]byte(p.idp.Metadata()))
	if err != nil {
		t.Fatal(err)
	}
	p.conn = Connection{
		EntityID: entityID, ACS: acs, Key: key, Certificate: cert, Issuer: read.EntityID, SSO: read.SSO, Certificates: read.Certificates, SignRequests: true,
	}
	return p
}

func (p pair) answer() samltest.Answer {
	return samltest.Answer{
		ACS: acs, Audience: entityID, RequestID: requestID, Subject: "ada", Now: now,
		Attributes: []samltest.Attribute{{Name: "email", Values: []string{"ada@idp.example"}}, {Name: "groups", Values: []string{"admins", "engineers"}}},
	}
}

func (p pair) with(change func(*samltest.Answer)) []byte {
	a := p.answer()
	change(&a)
	return p.idp.Response(a)
}

func (p pair) verify(raw []byte) (Assertion, error) {
	return p.conn.Verify(raw, Expected{RequestID: requestID, Now: now})
}

func (p pair) mustPass(t testing.TB, raw []byte) Assertion {
	t.Helper()
	got, err := p.verify(raw)
	if err != nil {
		t.Fatalf("refused: %s\n%s", ReasonOf(err), raw)
	}
	return got
}

// mustRefuse wants a refusal that gives nothing away and whose reason has a part.
func mustRefuse(t testing.TB, err error, part string) {
	t.Helper()
	if err == nil {
		t.Fatalf("taken; want a refusal about %q", part)
	}
	if got := err.Error(); got != "the identity provider's response isn't valid" {
		t.Errorf("the refusal says %q", got)
	}
	if got := ReasonOf(err); part == "" || !strings.Contains(got, part) {
		t.Errorf("reason %q, want %q", got, part)
	}
}

func TestVerify_TakesWhatAGoodProviderSends(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for name, change := range map[string]func(*samltest.Answer){
		"signed assertion": func(*samltest.Answer) {},
		"both signed":      func(a *samltest.Answer) { a.SignResponse = true },
		"signed response":  func(a *samltest.Answer) { a.SignResponse, a.NoAssertionSignature = true, true },
		"with KeyInfo":     func(a *samltest.Answer) { a.Signing.KeyInfo = samltest.KeyInfo(p.idp.Certificate) },
		"with another's KeyInfo": func(a *samltest.Answer) { // It isn't looked at.
			a.Signing.KeyInfo = samltest.KeyInfo(p.conn.Certificate)
		},
		"with a KeyName": func(a *samltest.Answer) { a.Signing.KeyInfo = "<ds:KeyInfo><ds:KeyName>k</ds:KeyName></ds:KeyInfo>" },
		"AES-256-GCM":    func(a *samltest.Answer) { a.EncryptFor = p.conn.Certificate },
		"AES-128-CBC": func(a *samltest.Answer) {
			a.EncryptFor, a.Cipher = p.conn.Certificate, "http://www.w3.org/2001/04/xmlenc#aes128-cbc"
		},
		"AES-256-CBC, all signed": func(a *samltest.Answer) {
			a.EncryptFor, a.Cipher, a.SignResponse = p.conn.Certificate, "http://www.w3.org/2001/04/xmlenc#aes256-cbc", true
		},
		"encrypted, response signed": func(a *samltest.Answer) {
			a.EncryptFor, a.SignResponse, a.NoAssertionSignature = p.conn.Certificate, true, true
		},
		"an XML declaration": func(a *samltest.Answer) {
			a.Wrap = func(x string) string { return `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + x }
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := p.mustPass(t, p.with(change))
			if got.Subject != "ada" || got.Issuer != "https://idp.example" || len(got.Attributes) != 2 || !slices.Equal(got.Attributes[1].Values, []string{"admins", "engineers"}) {
				t.Errorf("read %+v", got)
			}
			if got.Until.Before(now.Add(5*time.Minute)) || got.Until.After(now.Add(10*time.Minute)) {
				t.Errorf("remembered until %s", got.Until)
			}
		})
	}
}

// The second provider is crewjam's own, which writes, signs and encrypts in another way.
func TestVerify_TakesWhatAnotherImplementationSends(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ours, err := p.conn.Metadata(now)
	if err != nil {
		t.Fatal(err)
	}
	var sp library.EntityDescriptor
	if err := xml.Unmarshal(ours, &sp); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse("https://idp.example")
	if err != nil {
		t.Fatal(err)
	}
	to, err := p.conn.Request(requestID, "state", now)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, encrypted := range []bool{false, true} {
		role := sp.SPSSODescriptors[0]
		if !encrypted {
			role.KeyDescriptors = nil
		}
		var raw []byte
		atTime(now, func() {
			idp := &library.IdentityProvider{Key: p.idp.Key, Certificate: p.idp.Certificate, MetadataURL: *at, SSOURL: *at, SignatureMethod: dsig.RSASHA256SignatureMethod}
			req := &library.IdpAuthnRequest{
				IDP: idp, Now: now, HTTPRequest: nil, ServiceProviderMetadata: &sp, SPSSODescriptor: &role, ACSEndpoint: &role.AssertionConsumerServices[0],
				Request: library.AuthnRequest{ID: requestID, IssueInstant: now},
			}
			req.Assertion = &library.Assertion{
				ID: "id-1", IssueInstant: now, Version: "2.0", Issuer: library.Issuer{Value: idp.MetadataURL.String()},
				Subject: &library.Subject{
					NameID: &library.NameID{Value: "ada"},
					SubjectConfirmations: []library.SubjectConfirmation{{Method: bearer, SubjectConfirmationData: &library.SubjectConfirmationData{
						InResponseTo: requestID, NotOnOrAfter: now.Add(time.Minute), Recipient: acs}}},
				},
				Conditions: &library.Conditions{NotBefore: now, NotOnOrAfter: now.Add(time.Minute),
					AudienceRestrictions: []library.AudienceRestriction{{Audience: library.Audience{Value: entityID}}}},
				AuthnStatements: []library.AuthnStatement{{AuthnInstant: now, AuthnContext: library.AuthnContext{AuthnContextClassRef: &library.AuthnContextClassRef{Value: "x"}}}},
			}
			if err = req.MakeResponse(); err != nil {
				return
			}
			raw, err = write(req.ResponseEl)
		})
		if err != nil {
			t.Fatal(err)
		}
		if encrypted != bytes.Contains(raw, []byte("EncryptedAssertion")) {
			t.Fatalf("encrypted %t: %s", encrypted, raw)
		}
		if got := p.mustPass(t, raw); got.Subject != "ada" {
			t.Errorf("read %+v", got)
		}
	}
	// The request that we sent is one that it reads and whose signature holds.
	q := asked.Query()
	packed, err := base64.StdEncoding.DecodeString(q.Get("SAMLRequest"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`ID="` + requestID + `"`, `AssertionConsumerServiceURL="` + acs + `"`, `>` + entityID + `<`, `Destination="https://idp.example/sso"`} {
		if !strings.Contains(string(plain), want) {
			t.Errorf("the request lacks %s: %s", want, plain)
		}
	}
	if strings.Contains(string(plain), "transient") {
		t.Errorf("the request asks for a transient subject: %s", plain)
	}
	signed, signature, _ := strings.Cut(asked.RawQuery, "&Signature=")
	signature, err = url.QueryUnescape(signature)
	if err != nil {
		t.Fatal(err)
	}
	value, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.conn.Certificate.CheckSignature(x509.SHA256WithRSA, []byte(signed), value); err != nil {
		t.Errorf("the request's signature: %v", err)
	}
}
