package saml

import (
	"strings"

	"github.com/beevik/etree"
)

// The namespaces of which elements are known.
const (
	protocol  = "urn:oasis:names:tc:SAML:2.0:protocol"
	assertion = "urn:oasis:names:tc:SAML:2.0:assertion"
	xmldsig   = "http://www.w3.org/2000/09/xmldsig#"
	xmlenc    = "http://www.w3.org/2001/04/xmlenc#"
	xmlenc11  = "http://www.w3.org/2009/xmlenc11#"
	excC14N   = "http://www.w3.org/2001/10/xml-exc-c14n#"
)

// name is an element's full name.
type name struct{ space, tag string }

func nameOf(el *etree.Element) name { return name{el.NamespaceURI(), el.Tag} }

// part is a child that an element has at least min and at most max times.
type part struct {
	name
	min, max int
}

const many = elementsMax

// shape is what an element holds: parts, or text.
type shape struct {
	parts []part
	text  bool
	// ignored is never read; it may hold what is neither SAML nor a signature.
	ignored bool
}

func of(parts ...part) shape                       { return shape{parts: parts} }
func one(space, tag string) part                   { return part{name{space, tag}, 1, 1} }
func optional(space, tag string) part              { return part{name{space, tag}, 0, 1} }
func between(space, tag string, min, max int) part { return part{name{space, tag}, min, max} }

var text = shape{text: true}

// shapes is the grammar of a response: narrower than the standard, wide enough for what
// providers send to a web browser. An element that isn't listed is refused.
var shapes = map[name]shape{
	// The assertion is counted in checkResponse: one, plain or encrypted.
	{protocol, "Response"}: of(optional(assertion, "Issuer"), optional(xmldsig, "Signature"), one(protocol, "Status"),
		optional(assertion, "Assertion"), optional(assertion, "EncryptedAssertion")),
	{protocol, "Status"}:        of(one(protocol, "StatusCode"), optional(protocol, "StatusMessage"), optional(protocol, "StatusDetail")),
	{protocol, "StatusCode"}:    of(optional(protocol, "StatusCode")),
	{protocol, "StatusMessage"}: text,
	{protocol, "StatusDetail"}:  {ignored: true},

	{assertion, "Assertion"}: of(one(assertion, "Issuer"), optional(xmldsig, "Signature"), one(assertion, "Subject"), one(assertion, "Conditions"),
		one(assertion, "AuthnStatement"), between(assertion, "AttributeStatement", 0, many)),
	{assertion, "Issuer"}:                  text,
	{assertion, "Subject"}:                 of(one(assertion, "NameID"), between(assertion, "SubjectConfirmation", 1, 5)),
	{assertion, "NameID"}:                  text,
	{assertion, "SubjectConfirmation"}:     of(one(assertion, "SubjectConfirmationData")),
	{assertion, "SubjectConfirmationData"}: of(),
	{assertion, "Conditions"}:              of(between(assertion, "AudienceRestriction", 1, 5), optional(assertion, "OneTimeUse"), optional(assertion, "ProxyRestriction")),
	{assertion, "AudienceRestriction"}:     of(between(assertion, "Audience", 1, 20)),
	{assertion, "Audience"}:                text,
	{assertion, "OneTimeUse"}:              of(),
	{assertion, "ProxyRestriction"}:        of(between(assertion, "Audience", 0, 20)),
	{assertion, "AuthnStatement"}:          of(optional(assertion, "SubjectLocality"), one(assertion, "AuthnContext")),
	{assertion, "SubjectLocality"}:         of(),
	{assertion, "AuthnContext"}: of(optional(assertion, "AuthnContextClassRef"), optional(assertion, "AuthnContextDeclRef"),
		between(assertion, "AuthenticatingAuthority", 0, 20)),
	{assertion, "AuthnContextClassRef"}:    text,
	{assertion, "AuthnContextDeclRef"}:     text,
	{assertion, "AuthenticatingAuthority"}: text,
	{assertion, "AttributeStatement"}:      of(between(assertion, "Attribute", 0, many)),
	{assertion, "Attribute"}:               of(between(assertion, "AttributeValue", 0, many)),
	{assertion, "AttributeValue"}:          text,

	{xmldsig, "Signature"}:              of(one(xmldsig, "SignedInfo"), one(xmldsig, "SignatureValue"), optional(xmldsig, "KeyInfo")),
	{xmldsig, "SignedInfo"}:             of(one(xmldsig, "CanonicalizationMethod"), one(xmldsig, "SignatureMethod"), one(xmldsig, "Reference")),
	{xmldsig, "CanonicalizationMethod"}: of(optional(excC14N, "InclusiveNamespaces")),
	{xmldsig, "SignatureMethod"}:        of(),
	{xmldsig, "Reference"}:              of(one(xmldsig, "Transforms"), one(xmldsig, "DigestMethod"), one(xmldsig, "DigestValue")),
	{xmldsig, "Transforms"}:             of(between(xmldsig, "Transform", 2, 2)),
	{xmldsig, "Transform"}:              of(optional(excC14N, "InclusiveNamespaces")),
	{excC14N, "InclusiveNamespaces"}:    of(),
	{xmldsig, "DigestMethod"}:           of(),
	{xmldsig, "DigestValue"}:            text,
	{xmldsig, "SignatureValue"}:         text,
	{xmldsig, "KeyInfo"}:                {ignored: true},

	{assertion, "EncryptedAssertion"}: of(one(xmlenc, "EncryptedData"), optional(xmlenc, "EncryptedKey")),
	{xmlenc, "EncryptedData"}:         of(one(xmlenc, "EncryptionMethod"), optional(xmldsig, "KeyInfo"), one(xmlenc, "CipherData")),
	{xmlenc, "EncryptedKey"}:          of(one(xmlenc, "EncryptionMethod"), optional(xmldsig, "KeyInfo"), one(xmlenc, "CipherData"), optional(xmlenc, "ReferenceList")),
	{xmlenc, "ReferenceList"}:         {ignored: true},
	{xmlenc, "EncryptionMethod"}:      of(optional(xmldsig, "DigestMethod"), optional(xmlenc11, "MGF")),
	{xmlenc11, "MGF"}:                 of(),
	{xmlenc, "CipherData"}:            of(one(xmlenc, "CipherValue")),
	{xmlenc, "CipherValue"}:           text,
}

// checkShape holds an element and all in it against the grammar.
func checkShape(el *etree.Element) error {
	s, known := shapes[nameOf(el)]
	switch {
	case !known:
		return refuse("it contains the element %s, which isn't expected there", show(el.Tag))
	case s.ignored:
		return checkIgnored(el)
	case s.text && len(el.ChildElements()) > 0:
		return refuse("%s must hold text alone", show(el.Tag))
	case s.text:
		return nil
	case strings.TrimSpace(textOf(el)) != "":
		return refuse("%s holds text, which isn't expected there", show(el.Tag))
	}
	return checkParts(el, s)
}

func checkParts(el *etree.Element, s shape) error {
	found := map[name]int{}
	for _, c := range el.ChildElements() {
		found[nameOf(c)]++
	}
	for _, p := range s.parts {
		n := found[p.name]
		delete(found, p.name)
		switch {
		case n == 0 && p.min > 0:
			return refuse("%s has no %s", show(el.Tag), p.tag)
		case n < p.min:
			return refuse("%s has fewer than %d %s", show(el.Tag), p.min, p.tag)
		case n > p.max:
			return refuse("%s has more than %d %s", show(el.Tag), p.max, p.tag)
		}
	}
	for _, c := range el.ChildElements() {
		if found[nameOf(c)] > 0 {
			return refuse("%s contains the element %s, which isn't expected there", show(el.Tag), show(c.Tag))
		}
		if err := checkShape(c); err != nil {
			return err
		}
	}
	return nil
}

// checkIgnored: where nothing is read, nothing may hide that is read elsewhere.
func checkIgnored(el *etree.Element) error {
	for _, c := range el.ChildElements() {
		n := nameOf(c)
		_, isPart := shapes[n]
		switch {
		case n == name{xmlenc, "EncryptedKey"}:
			if err := checkShape(c); err != nil {
				return err
			}
			continue
		case n.space == protocol, n.space == assertion, isPart, n == name{xmldsig, "Object"}:
			return refuse("%s contains the element %s, which isn't expected there", show(el.Tag), show(c.Tag))
		}
		if err := checkIgnored(c); err != nil {
			return err
		}
	}
	return nil
}

// checkResponse is the shape of a whole response.
func checkResponse(root *etree.Element) error {
	if nameOf(root) != (name{protocol, "Response"}) {
		return refuse("it isn't a SAML 2.0 Response")
	}
	if err := checkShape(root); err != nil {
		return err
	}
	// Before the assertion: a response that reports an error has none.
	if err := checkStatus(root); err != nil {
		return err
	}
	plain, encrypted := child(root, assertion, "Assertion"), child(root, assertion, "EncryptedAssertion")
	if (plain == nil) == (encrypted == nil) {
		return refuse("it must contain one assertion, plain or encrypted")
	}
	if err := checkIDs(root); err != nil {
		return err
	}
	return checkMessage(root)
}

// checkAssertion is the shape of an assertion that stands alone.
func checkAssertion(el *etree.Element) error {
	if nameOf(el) != (name{assertion, "Assertion"}) {
		return refuse("it isn't a SAML 2.0 assertion")
	}
	if err := checkShape(el); err != nil {
		return err
	}
	return checkIDs(el)
}

// checkStatus: the code is one of a few names, but written by a stranger.
func checkStatus(root *etree.Element) error {
	code := child(child(root, protocol, "Status"), protocol, "StatusCode")
	if attribute(code, "Value") == "urn:oasis:names:tc:SAML:2.0:status:Success" {
		return nil
	}
	said := attribute(code, "Value")
	if inner := child(code, protocol, "StatusCode"); inner != nil {
		said = attribute(inner, "Value")
	}
	return refuse("the provider refused the sign-in with the status %s", show(strings.TrimPrefix(said, "urn:oasis:names:tc:SAML:2.0:status:")))
}

// checkIDs: what a signature refers to is there once. Each signature stands in what it signs.
func checkIDs(root *etree.Element) error {
	seen := map[string]bool{}
	var visit func(el *etree.Element) error
	visit = func(el *etree.Element) error {
		for _, a := range el.Attr {
			if a.Space == "xmlns" || !strings.EqualFold(a.Key, "id") {
				continue
			}
			if a.Value == "" || seen[a.Value] {
				return refuse("an ID is empty or stands in two elements")
			}
			seen[a.Value] = true
		}
		for _, c := range el.ChildElements() {
			if err := visit(c); err != nil {
				return err
			}
		}
		return nil
	}
	return visit(root)
}

func checkMessage(el *etree.Element) error {
	if attribute(el, "Version") != "2.0" || attribute(el, "ID") == "" {
		return refuse("%s has no ID, or another version than 2.0", show(el.Tag))
	}
	return nil
}

// child is the first child of a name; nil without one. Shapes say how often it is there.
func child(el *etree.Element, space, tag string) *etree.Element {
	if el == nil {
		return nil
	}
	for _, c := range el.ChildElements() {
		if c.Tag == tag && c.NamespaceURI() == space {
			return c
		}
	}
	return nil
}

func children(el *etree.Element, space, tag string) []*etree.Element {
	var out []*etree.Element
	for _, c := range el.ChildElements() {
		if c.Tag == tag && c.NamespaceURI() == space {
			out = append(out, c)
		}
	}
	return out
}

// attribute is one without a prefix.
func attribute(el *etree.Element, key string) string {
	if el == nil {
		return ""
	}
	for _, a := range el.Attr {
		if a.Space == "" && a.Key == key {
			return a.Value
		}
	}
	return ""
}

// textOf joins all text directly in an element, so that nothing after a child is lost.
func textOf(el *etree.Element) string {
	var b strings.Builder
	for _, c := range el.Child {
		if t, ok := c.(*etree.CharData); ok {
			b.WriteString(t.Data)
		}
	}
	return b.String()
}

const showMax = 80

// show writes a stranger's word into a reason.
func show(word string) string {
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return -1
		}
		return r
	}, word)
	return clean[:min(len(clean), showMax)]
}
