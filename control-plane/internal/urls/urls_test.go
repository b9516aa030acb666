package urls

import "testing"

func TestURLs_SecretsStandInTheFragment(t *testing.T) {
	t.Parallel()
	u, err := New("https://app.corvo.test/", func(name string) string { return "https://" + name + ".corvo.test/" })
	if err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		u.Public:                       "https://app.corvo.test",
		u.Tenant("acme"):               "https://acme.corvo.test",
		u.RedirectURI("tn_1"):          "https://app.corvo.test/auth/oidc/tn_1/callback",
		u.SharedRedirectURI():          "https://app.corvo.test/auth/oidc/callback",
		u.SAMLACS("sso_1"):             "https://app.corvo.test/auth/saml/sso_1/acs",
		u.SAMLMetadata("sso_1"):        "https://app.corvo.test/auth/saml/sso_1/metadata",
		u.OIDCStart("a&b"):             "https://app.corvo.test/auth/oidc/start?tenant=a%26b",
		u.Console("/acme/queues"):      "https://app.corvo.test/acme/queues",
		u.Link("/signin/confirm", "t"): "https://app.corvo.test/signin/confirm#token=t",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if !u.Secure() {
		t.Error("https is not secure")
	}
}

func TestNew_RefusesWhatIsNotAnOrigin(t *testing.T) {
	t.Parallel()
	for _, public := range []string{"", "corvo.test", "ftp://corvo.test", "http://corvo.test/console", "http://user@corvo.test", "http://corvo.test?x=1", "http://corvo.test#x", "http://"} {
		if _, err := New(public, nil); err == nil {
			t.Errorf("%q is taken", public)
		}
	}
}
