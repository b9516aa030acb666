// Package samltest is an identity provider for tests: it writes SAML responses as text and
// signs and encrypts them for real, with the standard library's cryptography, so that a test
// can change any part before or after. It must not know the room that it tests. Surprising:
// of goxmldsig it takes canonicalization alone, since a signature made by the library that
// checks it proves little.
package samltest

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha1" // For attacks.
	_ "crypto/sha256"
	_ "crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"html"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
	"github.com/russellhaering/goxmldsig/etreeutils"
)

// IdP is a provider with one key.
type IdP struct {
	T             testing.TB
	EntityID, SSO string
	Key           *rsa.PrivateKey
	Certificate   *x509.Certificate
}

// New makes a provider whose certificate is valid from a day before now for a year.
func New(t testing.TB, entityID string, now time.Time) *IdP {
	t.Helper()
	p := &IdP{T: t, EntityID: entityID, SSO: strings.TrimRight(entityID, "/") + "/sso"}
	p.Rotate(now.Add(-24*time.Hour), now.Add(365*24*time.Hour))
	return p
}

// Rotate gives the provider a new key and certificate.
func (p *IdP) Rotate(from, until time.Time) {
	p.T.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		p.T.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "provider"}, NotBefore: from, NotAfter: until}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		p.T.Fatal(err)
	}
	if p.Certificate, err = x509.ParseCertificate(raw); err != nil {
		p.T.Fatal(err)
	}
	p.Key = key
}

// PEM is the certificate's text.
func (p *IdP) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate.Raw}))
}

// Metadata is the provider's document, with more certificates if given.
func (p *IdP) Metadata(more ...*x509.Certificate) string {
	keys := ""
	for _, c := range append([]*x509.Certificate{p.Certificate}, more...) {
		keys += `<md:KeyDescriptor use="signing"><ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:X509Data><ds:X509Certificate>` +
			base64.StdEncoding.EncodeToString(c.Raw) + `</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`
	}
	return `<?xml version="1.0" encoding="UTF-8"?><md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" entityID="` + html.EscapeString(p.EntityID) + `">` +
		`<md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">` + keys +
		`<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="` + html.EscapeString(p.SSO) + `/post"/>` +
		`<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="` + html.EscapeString(p.SSO) + `"/>` +
		`</md:IDPSSODescriptor></md:EntityDescriptor>`
}

// Answer is what a response says.
type Answer struct {
	ACS, Audience, RequestID, Subject, Format string
	Now                                       time.Time
	Attributes                                []Attribute
	// ResponseID and AssertionID are made up unless given.
	ResponseID, AssertionID string
	// SignResponse beside the assertion; NoAssertionSignature leaves that one out.
	SignResponse, NoAssertionSignature bool
	// EncryptFor encrypts the assertion with a Cipher; AES-256-GCM unless given.
	EncryptFor *x509.Certificate
	Cipher     string
	// Edit changes the text of the assertion before it is signed, Wrap that of the response.
	Edit, Wrap func(xml string) string
	Signing    Signing
}

// Attribute of a person.
type Attribute struct {
	Name   string
	Values []string
}

func newID() string {
	var raw [16]byte
	rand.Read(raw[:])
	return "_" + hex.EncodeToString(raw[:])
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Assertion is the text of an assertion, not signed.
func (p *IdP) Assertion(a Answer) string {
	esc := html.EscapeString
	format, answers := "", ""
	if a.Format != "" {
		format = ` Format="` + esc(a.Format) + `"`
	}
	if a.RequestID != "" {
		answers = ` InResponseTo="` + esc(a.RequestID) + `"`
	}
	attributes := ""
	for _, at := range a.Attributes {
		attributes += `<saml:Attribute Name="` + esc(at.Name) + `" NameFormat="urn:oasis:names:tc:SAML:2.0:attrname-format:basic">`
		for _, v := range at.Values {
			attributes += `<saml:AttributeValue xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="xs:string">` + esc(v) + `</saml:AttributeValue>`
		}
		attributes += `</saml:Attribute>`
	}
	if attributes != "" {
		attributes = `<saml:AttributeStatement>` + attributes + `</saml:AttributeStatement>`
	}
	end := stamp(a.Now.Add(5 * time.Minute))
	return `<saml:Assertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="` + a.AssertionID + `" Version="2.0" IssueInstant="` + stamp(a.Now) + `">` +
		`<saml:Issuer>` + esc(p.EntityID) + `</saml:Issuer>` +
		`<saml:Subject><saml:NameID` + format + `>` + esc(a.Subject) + `</saml:NameID>` +
		`<saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer"><saml:SubjectConfirmationData` + answers + ` NotOnOrAfter="` + end + `" Recipient="` + esc(a.ACS) + `"/></saml:SubjectConfirmation></saml:Subject>` +
		`<saml:Conditions NotBefore="` + stamp(a.Now.Add(-5*time.Second)) + `" NotOnOrAfter="` + end + `"><saml:AudienceRestriction><saml:Audience>` + esc(a.Audience) + `</saml:Audience></saml:AudienceRestriction></saml:Conditions>` +
		`<saml:AuthnStatement AuthnInstant="` + stamp(a.Now) + `" SessionIndex="s1"><saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>` +
		attributes + `</saml:Assertion>`
}

// Response is a whole response.
func (p *IdP) Response(a Answer) []byte {
	p.T.Helper()
	if a.AssertionID == "" {
		a.AssertionID = newID()
	}
	if a.ResponseID == "" {
		a.ResponseID = newID()
	}
	inner := p.Assertion(a)
	if a.Edit != nil {
		inner = a.Edit(inner)
	}
	if !a.NoAssertionSignature {
		inner = p.Sign(inner, a.AssertionID, a.Signing)
	}
	if a.EncryptFor != nil {
		inner = `<saml:EncryptedAssertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion">` + p.Encrypt([]byte(inner), a.EncryptFor, a.Cipher) + `</saml:EncryptedAssertion>`
	}
	answers := ""
	if a.RequestID != "" {
		answers = ` InResponseTo="` + html.EscapeString(a.RequestID) + `"`
	}
	out := `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="` + a.ResponseID + `" Version="2.0" IssueInstant="` + stamp(a.Now) + `" Destination="` + html.EscapeString(a.ACS) + `"` + answers + `>` +
		`<saml:Issuer xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion">` + html.EscapeString(p.EntityID) + `</saml:Issuer>` +
		`<samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"/></samlp:Status>` + inner + `</samlp:Response>`
	if a.Wrap != nil {
		out = a.Wrap(out)
	}
	if a.SignResponse {
		out = p.Sign(out, a.ResponseID, a.Signing)
	}
	return []byte(out)
}

// Signing is how a signature is made; what is empty is done well.
type Signing struct {
	Method, Digest, C14N, URI string
	Hash                      crypto.Hash
	// Transforms is the text of the Transform elements, KeyInfo that of the KeyInfo.
	Transforms, KeyInfo string
	Key                 *rsa.PrivateKey
	// Value replaces the signature's value.
	Value func(signedInfo []byte) []byte
}

const (
	rsaSHA256 = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
	sha256URI = "http://www.w3.org/2001/04/xmlenc#sha256"
	excC14N   = "http://www.w3.org/2001/10/xml-exc-c14n#"
)

// Sign signs the element with an id and puts the signature behind its Issuer.
func (p *IdP) Sign(text, id string, s Signing) string {
	p.T.Helper()
	doc := etree.NewDocument()
	if err := doc.ReadFromString(text); err != nil {
		p.T.Fatal(err)
	}
	el := doc.FindElement(`//[@ID='` + id + `']`)
	if el == nil {
		p.T.Fatalf("no element has the ID %s", id)
	}
	sig := etree.NewDocument()
	if err := sig.ReadFromString(p.Signature(el, id, s)); err != nil {
		p.T.Fatal(err)
	}
	el.InsertChildAt(el.SelectElement("Issuer").Index()+1, sig.Root())
	out, err := doc.WriteToString()
	if err != nil {
		p.T.Fatal(err)
	}
	return out
}

// Signature is the text of a Signature of an element.
func (p *IdP) Signature(el *etree.Element, id string, s Signing) string {
	p.T.Helper()
	def := func(text *string, value string) {
		if *text == "" {
			*text = value
		}
	}
	def(&s.Method, rsaSHA256)
	def(&s.Digest, sha256URI)
	def(&s.C14N, excC14N)
	def(&s.URI, "#"+id)
	def(&s.Transforms, `<ds:Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"></ds:Transform><ds:Transform Algorithm="`+excC14N+`"></ds:Transform>`)
	if s.Hash == 0 {
		s.Hash = crypto.SHA256
	}
	if s.Key == nil {
		s.Key = p.Key
	}
	info := `<ds:SignedInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><ds:CanonicalizationMethod Algorithm="` + s.C14N + `"></ds:CanonicalizationMethod>` +
		`<ds:SignatureMethod Algorithm="` + s.Method + `"></ds:SignatureMethod><ds:Reference URI="` + s.URI + `"><ds:Transforms>` + s.Transforms +
		`</ds:Transforms><ds:DigestMethod Algorithm="` + s.Digest + `"></ds:DigestMethod><ds:DigestValue>` + base64.StdEncoding.EncodeToString(sum(s.Hash, p.canonical(el))) +
		`</ds:DigestValue></ds:Reference></ds:SignedInfo>`
	var value []byte
	if s.Value != nil {
		value = s.Value([]byte(info))
	} else {
		var err error
		if value, err = rsa.SignPKCS1v15(rand.Reader, s.Key, s.Hash, sum(s.Hash, []byte(info))); err != nil {
			p.T.Fatal(err)
		}
	}
	return `<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#">` + info + `<ds:SignatureValue>` + base64.StdEncoding.EncodeToString(value) + `</ds:SignatureValue>` + s.KeyInfo + `</ds:Signature>`
}

// KeyInfo is the text of a KeyInfo with a certificate.
func KeyInfo(c *x509.Certificate) string {
	return `<ds:KeyInfo><ds:X509Data><ds:X509Certificate>` + base64.StdEncoding.EncodeToString(c.Raw) + `</ds:X509Certificate></ds:X509Data></ds:KeyInfo>`
}

func (p *IdP) canonical(el *etree.Element) []byte {
	around, err := etreeutils.NSBuildParentContext(el)
	if err == nil {
		around, err = around.SubContext(el)
	}
	if err == nil {
		el, err = etreeutils.NSDetatch(around, el)
	}
	if err != nil {
		p.T.Fatal(err)
	}
	out, err := dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList("").Canonicalize(el)
	if err != nil {
		p.T.Fatal(err)
	}
	return out
}

func sum(h crypto.Hash, data []byte) []byte {
	d := h.New()
	d.Write(data)
	return d.Sum(nil)
}

// Encrypt gives an EncryptedData of a text, with a fresh key for a certificate.
func (p *IdP) Encrypt(plain []byte, to *x509.Certificate, algorithm string) string {
	p.T.Helper()
	if algorithm == "" {
		algorithm = "http://www.w3.org/2009/xmlenc11#aes256-gcm"
	}
	size := 32
	if strings.Contains(algorithm, "128") {
		size = 16
	}
	secret := make([]byte, size)
	rand.Read(secret)
	wrapped, err := rsa.EncryptOAEP(crypto.SHA1.New(), rand.Reader, to.PublicKey.(*rsa.PublicKey), secret, nil)
	if err != nil {
		p.T.Fatal(err)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		p.T.Fatal(err)
	}
	e := base64.StdEncoding.EncodeToString
	return fmt.Sprintf(`<xenc:EncryptedData xmlns:xenc="http://www.w3.org/2001/04/xmlenc#" Type="http://www.w3.org/2001/04/xmlenc#Element"><xenc:EncryptionMethod Algorithm="%s"/>`+
		`<ds:KeyInfo xmlns:ds="http://www.w3.org/2000/09/xmldsig#"><xenc:EncryptedKey><xenc:EncryptionMethod Algorithm="http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p"/>`+
		`<xenc:CipherData><xenc:CipherValue>%s</xenc:CipherValue></xenc:CipherData></xenc:EncryptedKey></ds:KeyInfo>`+
		`<xenc:CipherData><xenc:CipherValue>%s</xenc:CipherValue></xenc:CipherData></xenc:EncryptedData>`, algorithm, e(wrapped), e(seal(block, plain, strings.Contains(algorithm, "gcm"))))
}

func seal(block cipher.Block, plain []byte, isGCM bool) []byte {
	if isGCM {
		gcm, err := cipher.NewGCM(block)
		if err != nil {
			panic(err)
		}
		nonce := make([]byte, gcm.NonceSize())
		rand.Read(nonce)
		return gcm.Seal(nonce, nonce, plain, nil)
	}
	n := block.BlockSize() - len(plain)%block.BlockSize()
	padded := append(append([]byte{}, plain...), make([]byte, n)...)
	padded[len(padded)-1] = byte(n)
	iv := make([]byte, block.BlockSize(), block.BlockSize()+len(padded))
	rand.Read(iv)
	out := make([]byte, len(padded))
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(out, padded)
	return append(iv, out...)
}
