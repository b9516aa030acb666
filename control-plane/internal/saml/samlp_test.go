package saml

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// testdata/samlp was written by samlp 8.0.0 with xml-crypto and xml-encryption, which share no
// code with what reads it here. Its key is for this test alone.
func TestVerify_TakesWhatXMLCryptoSigned(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join("testdata", "samlp", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	idp, err := ParseCertificate(read("idp.pem"))
	if err != nil {
		t.Fatal(err)
	}
	key, cert, err := ParseKey(read("sp-key.pem"), read("sp.pem"))
	if err != nil {
		t.Fatal(err)
	}
	c := Connection{EntityID: entityID, ACS: acs, Key: key, Certificate: cert, Issuer: "https://idp.example", Certificates: []*x509.Certificate{idp}}
	at := time.Date(2026, time.November, 23, 15, 56, 5, 0, time.UTC)
	for _, name := range []string{"assertion.xml", "response.xml", "encrypted.xml"} {
		raw := read(name)
		got, err := c.Verify([]byte(raw), Expected{RequestID: requestID, Now: at})
		if err != nil {
			t.Errorf("%s: %s", name, ReasonOf(err))
			continue
		}
		said := map[string][]string{}
		for _, a := range got.Attributes {
			said[a.Name] = a.Values
		}
		if got.Subject != "ada" || said["name"][0] != "Ada Łovelace & <friends>" || strings.Join(said["groups"], " ") != "admins engineers" {
			t.Errorf("%s: read %+v", name, got)
		}
		// One letter changed, outside of what its cipher or signature value would tell at once.
		if changed := strings.Replace(raw, ">ada<", ">eve<", 1); changed != raw {
			if _, err := c.Verify([]byte(changed), Expected{RequestID: requestID, Now: at}); err == nil {
				t.Errorf("%s: changed, and taken", name)
			}
		}
		if _, err := c.Verify([]byte(raw), Expected{RequestID: requestID, Now: at.Add(time.Hour)}); err == nil {
			t.Errorf("%s: taken an hour later", name)
		}
	}
}
