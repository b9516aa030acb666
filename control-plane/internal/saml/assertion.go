package saml

import (
	"crypto/rsa"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"github.com/beevik/etree"
)

// Connection is what both sides of a connection have agreed on.
type Connection struct {
	// EntityID and ACS are ours: who we are to this provider, and where it sends responses.
	EntityID, ACS string
	// Key and Certificate are ours: requests are signed with them, assertions encrypted for them.
	Key         *rsa.PrivateKey
	Certificate *x509.Certificate
	// NextKey and NextCertificate will take their place; nil: none. What is encrypted for either
	// is read.
	NextKey         *rsa.PrivateKey
	NextCertificate *x509.Certificate
	// Issuer is the provider's entity id, SSO where it takes requests.
	Issuer, SSO string
	// Certificates are the provider's pinned ones; each that hasn't expired is good.
	Certificates []*x509.Certificate
	// SignRequests: requests carry a signature. WantEncrypted: a plain assertion is refused.
	SignRequests, WantEncrypted bool
}

// Rotated is the connection with its next key in the place of the present one.
func (c Connection) Rotated() Connection {
	if c.NextKey != nil {
		c.Key, c.Certificate, c.NextKey, c.NextCertificate = c.NextKey, c.NextCertificate, nil, nil
	}
	return c
}

// Expected is what a response must fit.
type Expected struct {
	// RequestID is that of the request that the response must answer; empty: it must answer
	// none.
	RequestID string
	Now       time.Time
}

// Assertion is what a provider says about somebody, verified.
type Assertion struct {
	ID, Issuer, Subject, SubjectFormat string
	Attributes                         []Attribute
	// Until is when nobody takes the assertion any more: so long its id must be remembered.
	Until time.Time
}

// Attribute is a named list of values.
type Attribute struct {
	Name, FriendlyName string
	Values             []string
}

const (
	// SkewMax is how far a provider's clock may be from ours.
	SkewMax = time.Minute
	// ageMax is how old a response may be, whatever it says itself.
	ageMax = 5 * time.Minute

	subjectMax    = 512
	valueMax      = 4096
	attributesAll = 1000
	bearer        = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
	transient     = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
)

// FormatEmail is the format of a subject that is an email address.
const FormatEmail = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"

// Verify reads a response. Whatever is wrong with it is a Refusal.
func (c Connection) Verify(raw []byte, want Expected) (out Assertion, err error) {
	defer guard(&err)
	root, err := parse(raw)
	if err != nil {
		return Assertion{}, err
	}
	if err := checkResponse(root); err != nil {
		return Assertion{}, err
	}
	signed, plain, err := c.signedAssertion(root, want.Now)
	if err != nil {
		return Assertion{}, err
	}
	if err := c.checkEnvelope(root, want); err != nil {
		return Assertion{}, err
	}
	if out, err = c.read(signed, want); err != nil {
		return Assertion{}, err
	}
	return out, c.secondReading(root, plain, want, out)
}

// signedAssertion gives the assertion out of signed bytes, and as it stands in the response,
// for the second reader. The response or the assertion is signed; if both are, both count.
func (c Connection) signedAssertion(root *etree.Element, now time.Time) (signed, plain *etree.Element, err error) {
	from, whole := root, false
	if child(root, xmldsig, "Signature") != nil {
		if from, err = signedBytes(root, c.Certificates, now); err != nil {
			return nil, nil, err
		}
		if nameOf(from) != nameOf(root) {
			return nil, nil, refuse("it isn't a SAML 2.0 Response")
		}
		whole = true
	}
	if sealed := child(from, assertion, "EncryptedAssertion"); sealed != nil {
		return c.openAssertion(sealed, whole, now)
	}
	if c.WantEncrypted {
		return nil, nil, refuse("its assertion isn't encrypted, and this connection demands that. Turn on assertion encryption at the provider with this connection's certificate")
	}
	el := child(from, assertion, "Assertion")
	if el == nil { // The signed bytes are not the response that was checked.
		return nil, nil, refuse("it must contain one assertion, plain or encrypted")
	}
	if signed, err = c.ownSignature(el, whole, now); err != nil {
		return nil, nil, err
	}
	return signed, el, checkAssertion(signed)
}

// openAssertion decrypts. Until the signature is known to be good, every failure is the same.
func (c Connection) openAssertion(sealed *etree.Element, whole bool, now time.Time) (signed, plain *etree.Element, err error) {
	raw, err := decrypt(sealed, c.Key)
	if err != nil && c.NextKey != nil {
		raw, err = decrypt(sealed, c.NextKey)
	}
	if err != nil {
		return nil, nil, errUndecryptable
	}
	if plain, err = parse(raw); err != nil {
		return nil, nil, errUndecryptable
	}
	if err := checkAssertion(plain); err != nil {
		return nil, nil, errUndecryptable
	}
	if signed, err = c.ownSignature(plain, whole, now); err != nil {
		return nil, nil, errUndecryptable
	}
	return signed, plain, checkAssertion(signed)
}

// ownSignature verifies the assertion's signature; it may lack if the whole response has one.
func (c Connection) ownSignature(el *etree.Element, whole bool, now time.Time) (*etree.Element, error) {
	if child(el, xmldsig, "Signature") != nil {
		return signedBytes(el, c.Certificates, now)
	}
	if !whole {
		return nil, refuse("neither the response nor its assertion is signed")
	}
	alone, err := detach(el)
	if err != nil {
		return nil, err
	}
	return reread(alone)
}

// checkEnvelope looks at what stands around the assertion. It needn't be signed, so it can
// only refuse.
func (c Connection) checkEnvelope(root *etree.Element, want Expected) error {
	destination := attribute(root, "Destination")
	switch {
	case destination == "" && child(root, xmldsig, "Signature") != nil, destination != "" && destination != c.ACS:
		return refuse("its Destination isn't this connection's ACS URL, %s", c.ACS)
	case attribute(root, "InResponseTo") != want.RequestID:
		return wrongRequest(want)
	}
	if issuer := child(root, assertion, "Issuer"); issuer != nil && strings.TrimSpace(textOf(issuer)) != c.Issuer {
		return c.wrongIssuer(issuer)
	}
	return checkInstant(root, want.Now)
}

func wrongRequest(want Expected) error {
	if want.RequestID == "" {
		return refuse("it answers a request of another sign-in")
	}
	return refuse("it doesn't answer the request of this sign-in (InResponseTo)")
}

func (c Connection) wrongIssuer(el *etree.Element) error {
	return refuse("its issuer is %s, but this connection's provider is %s", show(strings.TrimSpace(textOf(el))), c.Issuer)
}

// checkInstant bounds how long a response can lie around.
func checkInstant(el *etree.Element, now time.Time) error {
	at, err := instant(el, "IssueInstant")
	switch {
	case err != nil:
		return err
	case at.IsZero():
		return refuse("%s doesn't say when it was issued (IssueInstant)", el.Tag)
	case at.After(now.Add(SkewMax)):
		return refuse("%s was issued in the future; check the provider's clock", el.Tag)
	case !now.Before(at.Add(ageMax + SkewMax)):
		return refuse("%s was issued too long ago; sign in again, or check the provider's clock", el.Tag)
	}
	return nil
}

// read takes an assertion apart. It stands in bytes that were signed.
func (c Connection) read(el *etree.Element, want Expected) (Assertion, error) {
	subject, issuer := child(el, assertion, "Subject"), child(el, assertion, "Issuer")
	id := child(subject, assertion, "NameID")
	out := Assertion{
		ID: attribute(el, "ID"), Issuer: strings.TrimSpace(textOf(issuer)), Subject: strings.TrimSpace(textOf(id)), SubjectFormat: attribute(id, "Format"),
	}
	if err := checkMessage(el); err != nil {
		return out, err
	}
	if err := checkInstant(el, want.Now); err != nil {
		return out, err
	}
	switch {
	case out.Issuer != c.Issuer:
		return out, c.wrongIssuer(issuer)
	case out.Subject == "" || len(out.Subject) > subjectMax || strings.ContainsFunc(out.Subject, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }):
		return out, refuse("its subject (NameID) is empty, too long or has control characters")
	case out.SubjectFormat == transient:
		return out, refuse("its subject (NameID) is transient, another one at each sign-in. Have the provider send a persistent one")
	}
	if err := c.checkConditions(child(el, assertion, "Conditions"), want.Now); err != nil {
		return out, err
	}
	until, err := c.confirmed(subject, want)
	if err != nil {
		return out, err
	}
	out.Until = until
	if end, err := instant(child(el, assertion, "AuthnStatement"), "SessionNotOnOrAfter"); err != nil || !end.IsZero() && !want.Now.Before(end.Add(SkewMax)) {
		return out, refuse("the session at the provider has ended; sign in there again")
	}
	out.Attributes, err = attributes(el)
	return out, err
}

// checkConditions: now, and for us.
func (c Connection) checkConditions(el *etree.Element, now time.Time) error {
	if err := checkPeriod(el, now); err != nil {
		return err
	}
	// Restrictions are joined by "and", audiences in one of them by "or" (Core, 2.5.1.4).
	for _, r := range children(el, assertion, "AudienceRestriction") {
		fits := slices.ContainsFunc(children(r, assertion, "Audience"), func(a *etree.Element) bool { return strings.TrimSpace(textOf(a)) == c.EntityID })
		if !fits {
			return refuse("it is for another audience. Set the audience (SP entity ID) at the provider to %s", c.EntityID)
		}
	}
	return nil
}

// checkPeriod checks NotBefore and NotOnOrAfter, where they stand.
func checkPeriod(el *etree.Element, now time.Time) error {
	from, err := instant(el, "NotBefore")
	if err != nil {
		return err
	}
	until, err := instant(el, "NotOnOrAfter")
	switch {
	case err != nil:
		return err
	case !from.IsZero() && now.Add(SkewMax).Before(from):
		return refuse("it isn't valid yet (%s); check the provider's clock", el.Tag)
	case !until.IsZero() && !now.Before(until.Add(SkewMax)):
		return refuse("it has expired (%s); sign in again, or check the provider's clock", el.Tag)
	}
	return nil
}

// confirmed finds the confirmation that lets whoever brings the assertion be its subject, and
// says until when it does. Every bearer confirmation must fit, not only one of them.
func (c Connection) confirmed(subject *etree.Element, want Expected) (until time.Time, _ error) {
	found := false
	for _, s := range children(subject, assertion, "SubjectConfirmation") {
		data := child(s, assertion, "SubjectConfirmationData")
		if attribute(s, "Method") != bearer {
			return until, refuse("it confirms its subject by another method than bearer")
		}
		end, err := instant(data, "NotOnOrAfter")
		switch {
		case err != nil:
			return until, err
		case end.IsZero():
			return until, refuse("its SubjectConfirmationData has no NotOnOrAfter")
		case attribute(data, "NotBefore") != "": // Core, Profiles 4.1.4.2.
			return until, refuse("its SubjectConfirmationData has a NotBefore, which isn't allowed")
		case attribute(data, "Recipient") != c.ACS:
			return until, refuse("its Recipient isn't this connection's ACS URL, %s", c.ACS)
		case attribute(data, "InResponseTo") != want.RequestID:
			return until, wrongRequest(want)
		}
		if err := checkPeriod(data, want.Now); err != nil {
			return until, err
		}
		found = true
		// Whatever it says: a response older than ageMax isn't taken.
		if until = maxTime(until, end); until.After(want.Now.Add(ageMax + SkewMax)) {
			until = want.Now.Add(ageMax + SkewMax)
		}
	}
	if !found {
		return until, refuse("it has no SubjectConfirmation with the method bearer")
	}
	return until.Add(SkewMax), nil
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// attributes reads all statements; two of one name count as one list.
func attributes(el *etree.Element) ([]Attribute, error) {
	var out []Attribute
	for _, s := range children(el, assertion, "AttributeStatement") {
		for _, a := range children(s, assertion, "Attribute") {
			got := Attribute{Name: attribute(a, "Name"), FriendlyName: attribute(a, "FriendlyName")}
			if got.Name == "" {
				return nil, refuse("one of its attributes has no Name")
			}
			for _, v := range children(a, assertion, "AttributeValue") {
				text := strings.TrimSpace(textOf(v))
				if len(text) > valueMax {
					return nil, refuse("the attribute %s has a value of more than %d bytes", show(got.Name), valueMax)
				}
				if text != "" {
					got.Values = append(got.Values, text)
				}
			}
			if i := slices.IndexFunc(out, func(o Attribute) bool { return o.Name == got.Name }); i >= 0 {
				out[i].Values = append(out[i].Values, got.Values...)
				continue
			}
			if out = append(out, got); len(out) > attributesAll {
				return nil, refuse("it has more than %d attributes", attributesAll)
			}
		}
	}
	return out, nil
}

// instant reads a time; zero if it isn't there.
func instant(el *etree.Element, key string) (time.Time, error) {
	text := attribute(el, key)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, refuse("the %s of %s isn't a time in UTC", key, el.Tag)
	}
	return at, nil
}
