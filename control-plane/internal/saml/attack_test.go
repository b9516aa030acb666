package saml

import (
	"bytes"
	"compress/flate"
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/corvo-cloud/corvo/control-plane/internal/saml/samltest"
)

// evil rewrites a genuinely signed response.
func evil(t testing.TB, raw []byte, change func(response *etree.Element)) []byte {
	t.Helper()
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(raw); err != nil {
		t.Fatal(err)
	}
	change(doc.Root())
	out, err := doc.WriteToBytes()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// forge makes a response one for another person, in place, and gives what it took out: the
// genuine signature, and the genuine response without it.
func forge(r *etree.Element) (sig, inside *etree.Element) {
	sig, inside = r.SelectElement("Signature"), unsignedCopy(r)
	r.RemoveChild(sig)
	r.CreateAttr("ID", "evil-response")
	r.FindElement("./Assertion").CreateAttr("ID", "evil-inner")
	r.FindElement(".//NameID").SetText("mallory")
	return sig, inside
}

// forged copies an element without its signature, for another person under another id.
func forged(el *etree.Element, id string) *etree.Element {
	out := el.Copy()
	if sig := out.SelectElement("Signature"); sig != nil {
		out.RemoveChild(sig)
	}
	out.CreateAttr("ID", id)
	out.FindElement(".//NameID").SetText("mallory")
	return out
}

func unsignedCopy(el *etree.Element) *etree.Element {
	out := el.Copy()
	out.RemoveChild(out.SelectElement("Signature"))
	return out
}

// wrapping are the eight ways of XML signature wrapping (Somorovsky and others, 2012). Each
// keeps a genuine signature, and what it signed, in the document.
func wrapping(t testing.TB, p pair) map[string][]byte {
	signedResponse := p.with(func(a *samltest.Answer) { a.SignResponse, a.NoAssertionSignature = true, true })
	signedAssertion := p.with(func(*samltest.Answer) {})
	object := func(sig, inside *etree.Element) { sig.CreateElement("ds:Object").AddChild(inside) }
	return map[string][]byte{
		"S01": evil(t, signedResponse, func(r *etree.Element) { // The original in the forged response's signature.
			sig, inside := forge(r)
			r.InsertChildAt(1, sig)
			object(sig, inside)
		}),
		"S02": evil(t, signedResponse, func(r *etree.Element) { // The original before the signature.
			sig, inside := forge(r)
			r.InsertChildAt(1, inside)
			r.InsertChildAt(2, sig)
		}),
		"S03": evil(t, signedAssertion, func(r *etree.Element) { // A forged assertion before the original.
			a := r.SelectElement("Assertion")
			r.InsertChildAt(a.Index(), forged(a, "evil-assertion"))
		}),
		"S04": evil(t, signedAssertion, func(r *etree.Element) { // The original in the forged one.
			a := r.SelectElement("Assertion")
			f := forged(a, "evil-assertion")
			r.RemoveChild(a)
			f.AddChild(a)
			r.AddChild(f)
		}),
		"S05": evil(t, signedAssertion, func(r *etree.Element) { // The signature in the forged one, the original behind it.
			a := r.SelectElement("Assertion")
			f, sig := forged(a, "evil-assertion"), a.SelectElement("Signature")
			a.RemoveChild(sig)
			f.InsertChildAt(1, sig)
			r.InsertChildAt(a.Index(), f)
		}),
		"S06": evil(t, signedAssertion, func(r *etree.Element) { // The original in the signature in the forged one.
			a := r.SelectElement("Assertion")
			f, sig := forged(a, "evil-assertion"), a.SelectElement("Signature")
			a.RemoveChild(sig)
			r.RemoveChild(a)
			sig.AddChild(a)
			f.InsertChildAt(1, sig)
			r.AddChild(f)
		}),
		"S07": evil(t, signedAssertion, func(r *etree.Element) { // A forged one in Extensions.
			a := r.SelectElement("Assertion")
			x := etree.NewElement("samlp:Extensions")
			x.AddChild(forged(a, "evil-assertion"))
			r.InsertChildAt(1, x)
		}),
		"S08": evil(t, signedAssertion, func(r *etree.Element) { // The original in an Object of the signature.
			a := r.SelectElement("Assertion")
			f, sig := forged(a, "evil-assertion"), a.SelectElement("Signature")
			a.RemoveChild(sig)
			r.RemoveChild(a)
			object(sig, a)
			f.InsertChildAt(1, sig)
			r.AddChild(f)
		}),
	}
}

func swap(old, new string) func(string) string {
	return func(x string) string {
		if !strings.Contains(x, old) {
			panic("nothing to change: " + old)
		}
		return strings.Replace(x, old, new, 1)
	}
}

// attacks are responses that must be refused, by the number in the list of tests and a word.
// They are signed by the provider, with what is wrong inside where it can be.
func attacks(t testing.TB, p pair) map[string][]byte {
	other := samltest.New(t, p.idp.EntityID, now)
	out := map[string][]byte{}
	add := func(name string, change func(*samltest.Answer)) { out[name] = p.with(change) }
	edit := func(name, old, new string) {
		add(name, func(a *samltest.Answer) { a.Edit = swap(old, new) })
	}
	wrap := func(name, old, new string) {
		add(name, func(a *samltest.Answer) { a.SignResponse, a.Wrap = true, swap(old, new) })
	}
	after := func(name, old, new string) {
		out[name] = []byte(swap(old, new)(string(p.with(func(*samltest.Answer) {}))))
	}
	for name, raw := range wrapping(t, p) {
		out[name+" wrapping"] = raw
	}

	out["S09 two assertions, the second signed"] = evil(t, p.with(func(*samltest.Answer) {}), func(r *etree.Element) {
		a := r.SelectElement("Assertion")
		r.InsertChildAt(a.Index(), forged(a, "evil-assertion"))
	})
	wrap("S09 two assertions, both signed as one", "</samlp:Response>", p.idp.Assertion(samltest.Answer{AssertionID: "second", Now: now, Subject: "mallory", ACS: acs, Audience: entityID, RequestID: requestID})+"</samlp:Response>")
	sealed := p.idp.Encrypt([]byte(p.idp.Assertion(samltest.Answer{AssertionID: "second", Now: now, Subject: "mallory", ACS: acs, Audience: entityID, RequestID: requestID})), p.conn.Certificate, "")
	wrap("S09 one plain, one encrypted", "</samlp:Response>", `<saml:EncryptedAssertion xmlns:saml="`+assertion+`">`+sealed+"</saml:EncryptedAssertion></samlp:Response>")
	inner := p.idp.Assertion(samltest.Answer{AssertionID: "second", Now: now, Subject: "mallory", ACS: acs, Audience: entityID, RequestID: requestID})
	edit("S10 assertion in Advice", "</saml:Conditions>", "</saml:Conditions><saml:Advice>"+inner+"</saml:Advice>")
	wrap("S10 assertion in Extensions", "<samlp:Status>", "<samlp:Extensions>"+inner+"</samlp:Extensions><samlp:Status>")
	wrap("S10 assertion in StatusDetail", "</samlp:Status>", "<samlp:StatusDetail>"+inner+"</samlp:StatusDetail></samlp:Status>")
	add("S10 assertion in KeyInfo", func(a *samltest.Answer) { a.Signing.KeyInfo = "<ds:KeyInfo><x>" + inner + "</x></ds:KeyInfo>" })
	add("S10 Object in KeyInfo", func(a *samltest.Answer) { a.Signing.KeyInfo = "<ds:KeyInfo><ds:Object/></ds:KeyInfo>" })
	edit("S10 assertion in an AttributeValue", "ada@idp.example", inner)
	after("S11 comment in NameID", ">ada<", ">ada<!-- -->.evil<")
	after("S11 comment in email", "ada@idp", "ada@idp.example<!---->.evil@idp")
	after("S11 CDATA in NameID", ">ada<", "><![CDATA[ada]]><")
	after("S11 instruction in NameID", ">ada<", ">ada<?x y?>.evil<")
	edit("S12 foreign NameID", "<saml:NameID>ada</saml:NameID>", `<x:NameID xmlns:x="urn:evil">mallory</x:NameID><saml:NameID>ada</saml:NameID>`)
	edit("S12 only a foreign NameID", "<saml:NameID>ada</saml:NameID>", `<x:NameID xmlns:x="urn:evil">mallory</x:NameID>`)
	edit("S12 two NameIDs", "<saml:NameID>ada</saml:NameID>", `<saml:NameID>ada</saml:NameID><saml:NameID>mallory</saml:NameID>`)
	edit("S12 SAML 1.1 assertion", `xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"`, `xmlns:saml="urn:oasis:names:tc:SAML:1.0:assertion"`)
	add("S13 no Issuer", func(a *samltest.Answer) {
		a.SignResponse, a.NoAssertionSignature = true, true
		a.Edit = swap("<saml:Issuer>https://idp.example</saml:Issuer>", "")
	})
	for tag, name := range map[string]string{"Subject": "S13 no Subject", "Conditions": "S13 no Conditions", "AuthnStatement": "S13 no AuthnStatement", "NameID": "S13 no NameID", "SubjectConfirmation": "S14 no SubjectConfirmation"} {
		add(name, func(a *samltest.Answer) { a.Edit = func(x string) string { return without(x, tag) } })
	}
	add("S13 no SubjectConfirmationData", func(a *samltest.Answer) {
		a.Edit = func(x string) string {
			from := strings.Index(x, "<saml:SubjectConfirmationData")
			return x[:from] + x[from+strings.Index(x[from:], "/>")+2:]
		}
	})
	edit("S13 no audience", "<saml:Audience>"+entityID+"</saml:Audience>", "")
	add("S13 no assertion", func(a *samltest.Answer) {
		a.SignResponse, a.NoAssertionSignature = true, true
		a.Wrap = func(x string) string { return x[:strings.Index(x, "<saml:Assertion")] + "</samlp:Response>" }
	})
	edit("S13 empty NameID", ">ada<", "> <")
	edit("S13 no NotOnOrAfter of the confirmation", ` NotOnOrAfter="2026-11-20T12:05:00.000Z" Recipient`, ` Recipient`)
	edit("S14 not bearer", "cm:bearer", "cm:sender-vouches")
	after("S15 document type", "<samlp:Response", "<!DOCTYPE x><samlp:Response")
	after("S15 entity", "<samlp:Response", `<!DOCTYPE x [<!ENTITY a "ada">]><samlp:Response`)
	after("S15 external entity", "<samlp:Response", `<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><samlp:Response`)
	after("S15 unknown entity", ">ada<", ">&ada;<")
	after("S15 instruction", "<samlp:Response", `<?xml-stylesheet href="x"?><samlp:Response`)
	after("S15 another encoding", "<samlp:Response", `<?xml version="1.0" encoding="UTF-16"?><samlp:Response`)
	out["S15 not UTF-8"] = append([]byte("\xff\xfe"), out["S14 not bearer"]...)
	add("S16 one id for both", func(a *samltest.Answer) {
		a.ResponseID, a.AssertionID = "_same", "_same"
		a.NoAssertionSignature = true
	})
	edit("S16 an id twice", "<saml:Conditions ", `<saml:Conditions Id="_twin" `)
	out["S16 an id twice"] = bytes.Replace(out["S16 an id twice"], []byte(`<samlp:Status>`), []byte(`<samlp:Status ID="_twin">`), 1)
	after("S16 two ID attributes", `<samlp:Response `, `<samlp:Response id="_other" `)
	after("S16 an ID by a prefix", `<samlp:Response `, `<samlp:Response xmlns:x="urn:x" x:ID="_other" `)
	after("S16 a namespace called ID", `<samlp:Response `, `<samlp:Response xmlns:ID="_other" `)
	edit("S16 an attribute of another namespace", "<saml:NameID>", `<saml:NameID xmlns:x="urn:x" x:Format="urn:x">`)
	after("S16 an attribute twice", `<samlp:Response `, `<samlp:Response Destination="https://evil.example" `)
	transform := func(alg string) string { return `<ds:Transform Algorithm="` + alg + `"></ds:Transform>` }
	own, exclusive := transform("http://www.w3.org/2000/09/xmldsig#enveloped-signature"), transform("http://www.w3.org/2001/10/xml-exc-c14n#")
	for name, text := range map[string]string{
		"S17 no canonicalization":            own,
		"S17 XSLT":                           own + transform("http://www.w3.org/TR/1999/REC-xslt-19991116"),
		"S17 XPath":                          own + transform("http://www.w3.org/TR/1999/REC-xpath-19991116"),
		"S17 base64":                         own + transform("http://www.w3.org/2000/09/xmldsig#base64"),
		"S17 three transforms":               own + exclusive + exclusive,
		"S17 canonicalization first":         exclusive + own,
		"S17 canonicalization with comments": own + transform("http://www.w3.org/2001/10/xml-exc-c14n#WithComments"),
	} {
		add(name, func(a *samltest.Answer) { a.Signing.Transforms = text })
	}
	add("S17 void canonicalization", func(a *samltest.Answer) { a.Signing.C14N = "urn:void" })
	add("S17 empty reference", func(a *samltest.Answer) { a.Signing.URI = "\" x=\"" })
	add("S17 reference to the response", func(a *samltest.Answer) { a.ResponseID = "_r"; a.Signing.URI = "#_r" })
	add("S18 certificate in KeyInfo", func(a *samltest.Answer) {
		a.Signing.Key, a.Signing.KeyInfo = other.Key, samltest.KeyInfo(other.Certificate)
	})
	add("S18 another key, the right certificate in KeyInfo", func(a *samltest.Answer) {
		a.Signing.Key, a.Signing.KeyInfo = other.Key, samltest.KeyInfo(p.idp.Certificate)
	})
	add("S18 another key, no KeyInfo", func(a *samltest.Answer) { a.Signing.Key = other.Key })
	add("S19 no signature", func(a *samltest.Answer) { a.NoAssertionSignature = true })
	out["S19 signature stripped"] = evil(t, p.with(func(*samltest.Answer) {}), func(r *etree.Element) { *r.SelectElement("Assertion") = *unsignedCopy(r.SelectElement("Assertion")) })
	after("S19 changed after signing", ">ada<", ">mallory<")
	out["S19 changed in a signed response"] = bytes.Replace(p.with(func(a *samltest.Answer) { a.SignResponse, a.NoAssertionSignature = true, true }), []byte(">ada<"), []byte(">mallory<"), 1)
	out["S19 response's signature broken, assertion's good"] = bytes.Replace(p.with(func(a *samltest.Answer) { a.SignResponse = true }), []byte("<samlp:Status>"), []byte("<samlp:Status >  "), 1)
	add("S20 SHA-1", func(a *samltest.Answer) {
		a.Signing.Hash, a.Signing.Method, a.Signing.Digest = crypto.SHA1, "http://www.w3.org/2000/09/xmldsig#rsa-sha1", "http://www.w3.org/2000/09/xmldsig#sha1"
	})
	add("S20 SHA-1 digest", func(a *samltest.Answer) { a.Signing.Digest = "http://www.w3.org/2000/09/xmldsig#sha1" })
	add("S20 HMAC with the certificate", func(a *samltest.Answer) {
		a.Signing.Method = "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256"
		a.Signing.Value = func(info []byte) []byte {
			m := hmac.New(sha256.New, p.idp.Certificate.Raw)
			m.Write(info)
			return m.Sum(nil)
		}
	})
	add("S20 none", func(a *samltest.Answer) {
		a.Signing.Method = "none"
		a.Signing.Value = func([]byte) []byte { return nil }
	})
	add("S21 another audience", func(a *samltest.Answer) { a.Audience = "https://app.corvo.test/auth/saml/sso_2/metadata" })
	add("S21 a prefix of the audience", func(a *samltest.Answer) { a.Audience = entityID[:len(entityID)-1] })
	add("S21 the audience as a prefix", func(a *samltest.Answer) { a.Audience = entityID + ".evil.example" })
	edit("S21 a second restriction", "</saml:AudienceRestriction>", "</saml:AudienceRestriction><saml:AudienceRestriction><saml:Audience>urn:other</saml:Audience></saml:AudienceRestriction>")
	wrap("S22 another destination", `Destination="`+acs+`"`, `Destination="https://app.corvo.test/auth/saml/sso_2/acs"`)
	wrap("S22 no destination of a signed response", ` Destination="`+acs+`"`, ``)
	edit("S22 another recipient", `Recipient="`+acs+`"`, `Recipient="https://app.corvo.test/auth/saml/sso_2/acs"`)
	edit("S22 no recipient", ` Recipient="`+acs+`"`, ``)
	edit("S22 a second confirmation for another", "</saml:Subject>", `<saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer"><saml:SubjectConfirmationData InResponseTo="`+requestID+`" NotOnOrAfter="2026-11-20T12:05:00Z" Recipient="https://evil.example"/></saml:SubjectConfirmation></saml:Subject>`)
	add("S24 another request", func(a *samltest.Answer) { a.RequestID = "id-other" })
	edit("S24 another request in the assertion", `InResponseTo="`+requestID+`"`, `InResponseTo="id-other"`)
	out["S24 another request in the response"] = []byte(swap(`InResponseTo="`+requestID+`"`, `InResponseTo="id-other"`)(string(p.with(func(*samltest.Answer) {}))))
	add("S26 unsolicited", func(a *samltest.Answer) { a.RequestID = "" })
	add("S28 10 MB", func(a *samltest.Answer) { a.Subject = strings.Repeat("a", 10<<20) })
	add("S28 100,000 attributes", func(a *samltest.Answer) { a.Edit = swap("<saml:NameID>", "<saml:NameID "+manyAttributes(100_000)+">") })
	add("S28 5,000 attributes", func(a *samltest.Answer) { a.Edit = swap("<saml:NameID>", "<saml:NameID "+manyAttributes(5000)+">") })
	add("S28 a long value", func(a *samltest.Answer) { a.Attributes[0].Values[0] = strings.Repeat("a", 5000) })
	out["S28 nested deeply"] = []byte(`<samlp:Response xmlns:samlp="` + protocol + `">` + strings.Repeat("<a>", 20_000) + strings.Repeat("</a>", 20_000) + `</samlp:Response>`)
	add("S28 nested in KeyInfo", func(a *samltest.Answer) {
		a.Signing.KeyInfo = "<ds:KeyInfo>" + strings.Repeat("<a>", 20) + strings.Repeat("</a>", 20) + "</ds:KeyInfo>"
	})
	add("S28 12,000 elements", func(a *samltest.Answer) {
		a.Signing.KeyInfo = "<ds:KeyInfo>" + strings.Repeat("<a/>", 12_000) + "</ds:KeyInfo>"
	})
	out["S28 deflated"] = deflated(p.with(func(*samltest.Answer) {}))
	out["S28 a deflate bomb"] = deflated(bytes.Repeat([]byte("a"), 100<<20))
	add("S30 another issuer", func(a *samltest.Answer) {
		a.Edit = swap("<saml:Issuer>https://idp.example<", "<saml:Issuer>https://idp.example/b<")
	})
	wrap("S30 another issuer of the response", ">https://idp.example</saml:Issuer><samlp:Status>", ">https://idp.example/b</saml:Issuer><samlp:Status>")
	add("S34 another key", func(a *samltest.Answer) { a.EncryptFor = other.Certificate })
	add("S34 PKCS #1 v1.5", func(a *samltest.Answer) { a.EncryptFor = p.conn.Certificate })
	out["S34 PKCS #1 v1.5"] = bytes.Replace(out["S34 PKCS #1 v1.5"], []byte("#rsa-oaep-mgf1p"), []byte("#rsa-1_5"), 1)
	edit("odd: a transient subject", "<saml:NameID>", `<saml:NameID Format="`+transient+`">`)
	edit("odd: version 1.1", `Version="2.0"`, `Version="1.1"`)
	edit("odd: text between elements", "<saml:Conditions", "text<saml:Conditions")
	after("odd: status", "status:Success", "status:Responder")
	out["odd: nothing"] = nil
	out["odd: no XML"] = []byte("SAML")
	out["odd: two roots"] = append(p.with(func(*samltest.Answer) {}), "<a/>"...)
	out["odd: only an assertion"] = []byte(p.idp.Sign(p.idp.Assertion(samltest.Answer{AssertionID: "a", Now: now, Subject: "ada", ACS: acs, Audience: entityID}), "a", samltest.Signing{}))
	return out
}

// without drops an element of an assertion.
func without(x, tag string) string {
	from, to := strings.Index(x, "<saml:"+tag+" "), strings.Index(x, "</saml:"+tag+">")
	if plain := strings.Index(x, "<saml:"+tag+">"); plain >= 0 {
		from = plain
	}
	return x[:from] + x[to+len("</saml:"+tag+">"):]
}

func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ` a%d="b"`, i)
	}
	return b.String()
}

func deflated(plain []byte) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, 9)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(plain) // Into memory.
	_ = w.Close()
	return out.Bytes()
}

// corpus is made once: keys and signatures take their time.
var corpus struct {
	once sync.Once
	pair pair
	all  map[string][]byte
}

func allAttacks(t *testing.T) (pair, map[string][]byte) {
	t.Helper()
	corpus.once.Do(func() {
		corpus.pair = newPair(t)
		corpus.all = attacks(t, corpus.pair)
	})
	return corpus.pair, corpus.all
}

// refusals runs the attacks of one number and compares all reasons with the golden ones.
func refusals(t *testing.T, number string) {
	t.Helper()
	t.Parallel()
	p, all := allAttacks(t)
	want := golden(t)
	found := 0
	for name, raw := range all {
		if !strings.HasPrefix(name, number) {
			continue
		}
		found++
		got, err := p.verify(raw)
		if err == nil {
			t.Errorf("%s: taken as %+v", name, got)
			continue
		}
		if err.Error() != "the identity provider's response isn't valid" {
			t.Errorf("%s: the refusal says %q", name, err)
		}
		if reason := ReasonOf(err); reason != want[name] {
			t.Errorf("%s: refused as %q, want %q", name, reason, want[name])
		}
	}
	if found == 0 {
		t.Errorf("no attack is called %s", number)
	}
}

const goldenPath = "testdata/refusals.txt"

func golden(t testing.TB) map[string]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.FromSlash(goldenPath))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		name, reason, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		out[name] = reason
	}
	return out
}

var update = flag.Bool("update", false, "write the golden refusals anew")

func TestSAML_GoldenRefusalsAreThoseOfTheAttacks(t *testing.T) {
	t.Parallel()
	p, all := allAttacks(t)
	var lines []string
	for name, raw := range all {
		_, err := p.verify(raw)
		if err == nil {
			t.Fatalf("%s: taken", name)
		}
		lines = append(lines, name+"\t"+ReasonOf(err)+"\n")
	}
	slices.Sort(lines)
	text := strings.Join(lines, "")
	if *update {
		if err := os.WriteFile(filepath.FromSlash(goldenPath), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(filepath.FromSlash(goldenPath))
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) != text {
		t.Errorf("other refusals than in %s; write it anew with -update and read the difference", goldenPath)
	}
}

func TestSAML_S01_WrappingOfTheResponseInItsSignature(t *testing.T)     { refusals(t, "S01") }
func TestSAML_S02_WrappingOfTheResponseBeforeItsSignature(t *testing.T) { refusals(t, "S02") }
func TestSAML_S03_ForgedAssertionBeforeTheSignedOne(t *testing.T)       { refusals(t, "S03") }
func TestSAML_S04_SignedAssertionInTheForgedOne(t *testing.T)           { refusals(t, "S04") }
func TestSAML_S05_SignatureMovedToTheForgedAssertion(t *testing.T)      { refusals(t, "S05") }
func TestSAML_S06_SignedAssertionInTheMovedSignature(t *testing.T)      { refusals(t, "S06") }
func TestSAML_S07_ForgedAssertionInExtensions(t *testing.T)             { refusals(t, "S07") }
func TestSAML_S08_SignedAssertionInAnObject(t *testing.T)               { refusals(t, "S08") }
func TestSAML_S09_TwoAssertions(t *testing.T)                           { refusals(t, "S09") }
func TestSAML_S10_NestedAssertion(t *testing.T)                         { refusals(t, "S10") }
func TestSAML_S11_CommentInText(t *testing.T)                           { refusals(t, "S11") }
func TestSAML_S12_ForeignNameID(t *testing.T)                           { refusals(t, "S12") }
func TestSAML_S13_MissingParts(t *testing.T)                            { refusals(t, "S13") }
func TestSAML_S14_NoBearerConfirmation(t *testing.T)                    { refusals(t, "S14") }
func TestSAML_S15_DocumentTypesAndEntities(t *testing.T)                { refusals(t, "S15") }
func TestSAML_S16_DuplicateIDs(t *testing.T)                            { refusals(t, "S16") }
func TestSAML_S17_ExoticTransforms(t *testing.T)                        { refusals(t, "S17") }
func TestSAML_S18_KeyInfoIsNotTrusted(t *testing.T)                     { refusals(t, "S18") }
func TestSAML_S19_SignatureStrippedOrBroken(t *testing.T)               { refusals(t, "S19") }
func TestSAML_S20_WeakAlgorithms(t *testing.T)                          { refusals(t, "S20") }
func TestSAML_S21_WrongAudience(t *testing.T)                           { refusals(t, "S21") }
func TestSAML_S22_WrongDestinationOrRecipient(t *testing.T)             { refusals(t, "S22") }
func TestSAML_S24_AnotherRequest(t *testing.T)                          { refusals(t, "S24") }
func TestSAML_S26_Unsolicited(t *testing.T)                             { refusals(t, "S26") }
func TestSAML_S28_TooLarge(t *testing.T)                                { refusals(t, "S28") }
func TestSAML_S30_AnotherIssuer(t *testing.T)                           { refusals(t, "S30") }
func TestSAML_OddResponses(t *testing.T)                                { refusals(t, "odd") }

// S23: the edges of every period, to the second.
func TestSAML_S23_ExpiredAndNotYetWithSkew(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	raw := p.with(func(*samltest.Answer) {}) // Good from 12:00 (and 5 s before) to 12:05.
	for _, tc := range []struct {
		at   time.Duration
		part string
	}{
		{-SkewMax - time.Second, "future"}, {-SkewMax, ""}, {0, ""}, {5*time.Minute + SkewMax - time.Second, ""},
		{5*time.Minute + SkewMax, "too long ago"}, {24 * time.Hour, "too long ago"},
	} {
		_, err := p.conn.Verify(raw, Expected{RequestID: requestID, Now: now.Add(tc.at)})
		if tc.part == "" {
			if err != nil {
				t.Errorf("at %s: %s", tc.at, ReasonOf(err))
			}
			continue
		}
		mustRefuse(t, err, tc.part)
	}
	for name, tc := range map[string]struct{ old, new, part string }{
		"conditions ended":              {`NotOnOrAfter="2026-11-20T12:05:00.000Z"><saml:Aud`, `NotOnOrAfter="2026-11-20T11:59:00.000Z"><saml:Aud`, "expired (Conditions)"},
		"conditions not yet":            {`NotBefore="2026-11-20T11:59:55.000Z"`, `NotBefore="2026-11-20T12:01:01.000Z"`, "isn't valid yet (Conditions)"},
		"confirmation ended":            {`NotOnOrAfter="2026-11-20T12:05:00.000Z" Rec`, `NotOnOrAfter="2026-11-20T11:59:00.000Z" Rec`, "expired (SubjectConfirmationData)"},
		"confirmation with a beginning": {`SubjectConfirmationData `, `SubjectConfirmationData NotBefore="2026-11-20T12:00:00Z" `, "NotBefore"},
		"issued in the future":          {`IssueInstant="2026-11-20T12:00:00.000Z"`, `IssueInstant="2026-11-20T12:01:01.000Z"`, "future"},
		"issued long ago":               {`IssueInstant="2026-11-20T12:00:00.000Z"`, `IssueInstant="2026-11-20T11:00:00.000Z"`, "too long ago"},
		"no time":                       {`IssueInstant="2026-11-20T12:00:00.000Z"`, `IssueInstant="yesterday"`, "isn't a time"},
		"session over":                  {`SessionIndex="s1"`, `SessionNotOnOrAfter="2026-11-20T11:00:00Z"`, "session at the provider has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.verify(p.with(func(a *samltest.Answer) { a.Edit = swap(tc.old, tc.new) }))
			mustRefuse(t, err, tc.part)
		})
	}
}

// S26: a response to no request is taken where none is expected, and one to a request isn't.
func TestSAML_S26_IdPInitiatedAnswersNoRequest(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	if _, err := p.conn.Verify(p.with(func(a *samltest.Answer) { a.RequestID = "" }), Expected{Now: now}); err != nil {
		t.Error(ReasonOf(err))
	}
	_, err := p.conn.Verify(p.with(func(*samltest.Answer) {}), Expected{Now: now})
	mustRefuse(t, err, "another sign-in")
	// Not even an empty word of an answer inside.
	_, err = p.conn.Verify(p.with(func(a *samltest.Answer) {
		a.RequestID = ""
		a.Edit = swap("<saml:SubjectConfirmationData", `<saml:SubjectConfirmationData InResponseTo="id-x"`)
	}), Expected{Now: now})
	mustRefuse(t, err, "another sign-in")
}

// S31: during a roll-over both certificates are good; an expired one never is.
func TestSAML_S31_TwoCertificatesAndAnExpiredOne(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	before := p.with(func(*samltest.Answer) {})
	p.idp.Rotate(now.Add(-time.Hour), now.Add(time.Hour))
	after := p.with(func(*samltest.Answer) {})
	_, err := p.verify(after)
	mustRefuse(t, err, "isn't valid for any certificate")
	p.conn.Certificates = append(p.conn.Certificates, p.idp.Certificate)
	p.mustPass(t, before)
	p.mustPass(t, after)
	p.conn.Certificates = []*x509.Certificate{p.idp.Certificate}
	_, err = p.verify(before)
	mustRefuse(t, err, "isn't valid for any certificate")
	p.idp.Rotate(now.Add(-time.Hour), now.Add(-time.Second))
	p.conn.Certificates = []*x509.Certificate{p.idp.Certificate}
	_, err = p.verify(p.with(func(*samltest.Answer) {}))
	mustRefuse(t, err, "every certificate of this connection has expired")
}

// S34: whoever changes an encrypted assertion learns nothing from the refusal; a signature
// that isn't the provider's looks the same as a key that isn't ours.
func TestSAML_S34_EveryFailureOfAnEncryptedAssertionIsTheSame(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	other := samltest.New(t, p.idp.EntityID, now)
	same := ReasonOf(errUndecryptable)
	check := func(name string, raw []byte) {
		t.Helper()
		_, err := p.verify(raw)
		if err == nil || ReasonOf(err) != same {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, cipher := range []string{"http://www.w3.org/2001/04/xmlenc#aes256-cbc", "http://www.w3.org/2009/xmlenc11#aes256-gcm"} {
		encrypted := func(change func(*samltest.Answer)) []byte {
			return p.with(func(a *samltest.Answer) { a.EncryptFor, a.Cipher = p.conn.Certificate, cipher; change(a) })
		}
		check("another key", encrypted(func(a *samltest.Answer) { a.EncryptFor = other.Certificate }))
		check("another signer", encrypted(func(a *samltest.Answer) { a.Signing.Key = other.Key }))
		check("no signature", encrypted(func(a *samltest.Answer) { a.NoAssertionSignature = true }))
		check("not XML inside", encrypted(func(a *samltest.Answer) { a.NoAssertionSignature = true; a.Edit = func(string) string { return "ada" } }))
		check("wrong shape inside", encrypted(func(a *samltest.Answer) { a.Edit = func(x string) string { return without(x, "Conditions") } }))
		check("document type inside", encrypted(func(a *samltest.Answer) {
			a.NoAssertionSignature = true
			a.Edit = func(x string) string { return "<!DOCTYPE x>" + x }
		}))
		check("unknown cipher", bytes.Replace(encrypted(func(*samltest.Answer) {}), []byte(cipher), []byte("http://www.w3.org/2001/04/xmlenc#tripledes-cbc"), 1))
		raw := encrypted(func(*samltest.Answer) {})
		for at := range 64 { // Every byte of the last blocks, where padding is.
			check("a changed byte", flipped(t, raw, at))
		}
	}
	// Once the signature is known to be good, reasons help again.
	_, err := p.verify(p.with(func(a *samltest.Answer) { a.EncryptFor, a.Audience = p.conn.Certificate, "urn:other" }))
	mustRefuse(t, err, "another audience")
	p.conn.WantEncrypted = true
	_, err = p.verify(p.with(func(*samltest.Answer) {}))
	mustRefuse(t, err, "isn't encrypted")
	p.mustPass(t, p.with(func(a *samltest.Answer) { a.EncryptFor = p.conn.Certificate }))
}

// flipped changes one byte, counted from the end, of the assertion's cipher text.
func flipped(t testing.TB, raw []byte, at int) []byte {
	t.Helper()
	return evil(t, raw, func(r *etree.Element) {
		all := r.FindElements("//CipherValue")
		el := all[len(all)-1]
		text, err := base64.StdEncoding.DecodeString(el.Text())
		if err != nil {
			t.Fatal(err)
		}
		text[len(text)-1-at] ^= 0x15
		el.SetText(base64.StdEncoding.EncodeToString(text))
	})
}

// A panic anywhere in a library is a refusal.
func TestVerify_APanicIsARefusal(t *testing.T) {
	t.Parallel()
	_, err := func() (_ Assertion, err error) {
		defer guard(&err)
		var el *etree.Element
		return Assertion{ID: el.Tag}, nil
	}()
	mustRefuse(t, err, "can't be read")
}

// FuzzResponse: whatever comes in, nobody but ada comes out.
func FuzzResponse(f *testing.F) {
	p := newPair(f)
	f.Add(p.with(func(*samltest.Answer) {}))
	f.Add(p.with(func(a *samltest.Answer) { a.SignResponse, a.NoAssertionSignature = true, true }))
	f.Add(p.with(func(a *samltest.Answer) { a.EncryptFor = p.conn.Certificate }))
	for name, raw := range attacks(f, p) {
		if len(raw) < 20_000 && !strings.HasPrefix(name, "S28") {
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := p.verify(raw)
		if err == nil && (got.Subject != "ada" || got.Issuer != p.conn.Issuer) {
			t.Errorf("taken as %+v", got)
		}
		if err != nil && err.Error() != "the identity provider's response isn't valid" {
			t.Errorf("refused with %v", err)
		}
	})
}

// FuzzMetadata: nothing but certificates and addresses, or an error.
func FuzzMetadata(f *testing.F) {
	p := newPair(f)
	f.Add([]byte(p.idp.Metadata()))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := ReadMetadata(raw)
		if err == nil && (got.EntityID == "" || got.SSO == "" || len(got.Certificates) == 0) {
			t.Errorf("read %+v", got)
		}
	})
}
