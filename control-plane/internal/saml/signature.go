package saml

import (
	"crypto/x509"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
	"github.com/russellhaering/goxmldsig/etreeutils"
)

// Algorithms of signatures: RSA with SHA-2 alone. (goxmldsig takes an ECDSA signature in
// another form than XML signatures have.)
var (
	signatureMethods = map[string]bool{
		dsig.RSASHA256SignatureMethod: true, dsig.RSASHA384SignatureMethod: true, dsig.RSASHA512SignatureMethod: true,
	}
	digestMethods = map[string]bool{
		"http://www.w3.org/2001/04/xmlenc#sha256": true, "http://www.w3.org/2001/04/xmldsig-more#sha384": true, "http://www.w3.org/2001/04/xmlenc#sha512": true,
	}
)

const enveloped = "http://www.w3.org/2000/09/xmldsig#enveloped-signature"

// checkSignature looks at the form of an element's signature: it signs that element, whole,
// by an algorithm of ours.
func checkSignature(el *etree.Element) error {
	sig := child(el, xmldsig, "Signature")
	info := child(sig, xmldsig, "SignedInfo")
	ref := child(info, xmldsig, "Reference")
	transforms := children(child(ref, xmldsig, "Transforms"), xmldsig, "Transform")
	switch {
	case attribute(ref, "URI") != "#"+attribute(el, "ID"):
		return refuse("the signature of %s doesn't refer to it", el.Tag)
	case attribute(child(info, xmldsig, "CanonicalizationMethod"), "Algorithm") != excC14N,
		attribute(transforms[0], "Algorithm") != enveloped, attribute(transforms[1], "Algorithm") != excC14N:
		return refuse("the signature of %s must use the enveloped-signature transform and exclusive canonicalization, and no other", el.Tag)
	case !signatureMethods[attribute(child(info, xmldsig, "SignatureMethod"), "Algorithm")]:
		return refuse("the signature of %s must be made with RSA and SHA-256, SHA-384 or SHA-512", el.Tag)
	case !digestMethods[attribute(child(ref, xmldsig, "DigestMethod"), "Algorithm")]:
		return refuse("the digest of %s must be SHA-256, SHA-384 or SHA-512", el.Tag)
	}
	return nil
}

// signedBytes verifies an element's signature with the pinned certificates and gives the
// element as it was signed, parsed from those very bytes.
func signedBytes(el *etree.Element, pinned []*x509.Certificate, now time.Time) (*etree.Element, error) {
	if err := checkSignature(el); err != nil {
		return nil, err
	}
	alone, err := detach(el)
	if err != nil {
		return nil, err
	}
	// What it says of its key is nobody's but the sender's word.
	sig := child(alone, xmldsig, "Signature")
	if info := child(sig, xmldsig, "KeyInfo"); info != nil {
		sig.RemoveChild(info)
	}
	usable := 0
	for _, c := range pinned {
		if now.Before(c.NotBefore) || now.After(c.NotAfter) {
			continue
		}
		usable++
		v := dsig.NewDefaultValidationContext(&dsig.MemoryX509CertificateStore{Roots: []*x509.Certificate{c}})
		v.Clock = dsig.NewFakeClockAt(now)
		if signed, err := v.Validate(alone); err == nil {
			return reread(signed)
		}
	}
	if usable == 0 {
		return nil, refuse("every certificate of this connection has expired; add the provider's current one")
	}
	return nil, refuse("the signature of %s isn't valid for any certificate of this connection", el.Tag)
}

// reread writes and parses an element once more under our own rules for documents.
func reread(el *etree.Element) (*etree.Element, error) {
	if el == nil {
		return nil, refuse("it isn't well-formed XML")
	}
	raw, err := write(el)
	if err != nil {
		return nil, err
	}
	return parse(raw)
}

func write(el *etree.Element) ([]byte, error) {
	doc := etree.NewDocument()
	doc.SetRoot(el.Copy())
	doc.WriteSettings.CanonicalText, doc.WriteSettings.CanonicalAttrVal, doc.WriteSettings.CanonicalEndTags = true, true, true
	raw, err := doc.WriteToBytes()
	if err != nil {
		return nil, refuse("it isn't well-formed XML")
	}
	return raw, nil
}

// detach copies an element with the namespaces that were declared around it.
func detach(el *etree.Element) (*etree.Element, error) {
	around, err := etreeutils.NSBuildParentContext(el)
	if err == nil {
		around, err = around.SubContext(el)
	}
	if err == nil {
		el, err = etreeutils.NSDetatch(around, el)
	}
	if err != nil {
		return nil, refuse("its namespaces can't be read")
	}
	return el, nil
}
