package cookies

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestSession_NameAndAttributesFollowTheScheme(t *testing.T) {
	t.Parallel()
	expires := time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		secure bool
		want   string
	}{
		{true, "__Host-corvo_session=abc; Path=/; Expires=Tue, 01 Dec 2026 00:00:00 GMT; HttpOnly; Secure; SameSite=Lax"},
		{false, "corvo_session=abc; Path=/; Expires=Tue, 01 Dec 2026 00:00:00 GMT; HttpOnly; SameSite=Lax"},
	} {
		p, h := Policy{Secure: tc.secure}, make(http.Header)
		jar := NewJar("", "")
		jar.SetSession("abc", expires)
		jar.Write(p, h)
		if got := h.Get("Set-Cookie"); got != tc.want {
			t.Errorf("secure %v: %q, want %q", tc.secure, got, tc.want)
		}
		in := http.Header{"Cookie": {p.SessionName() + "=abc"}}
		if p.Session(in) != "abc" || (Policy{Secure: !tc.secure}).Session(in) != "" {
			t.Errorf("secure %v: read back wrong", tc.secure)
		}
	}
}

func TestSession_EndingAndTellingApart(t *testing.T) {
	t.Parallel()
	p, h := Policy{}, make(http.Header)
	NewJar("old", "").Write(p, h)
	if len(h) != 0 {
		t.Errorf("a call that sets nothing sends %v", h)
	}
	p.SetSession(h, "", time.Now().Add(time.Hour))
	if got := h.Get("Set-Cookie"); !strings.Contains(got, "Max-Age=0") {
		t.Errorf("%q ends nothing", got)
	}
	for cookie, want := range map[string]string{
		"":                                     "",
		"corvo_session=a":                      "a",
		"x=1; corvo_session=a; y=2":            "a",
		"corvo_session=a; corvo_session=b":     "", // Who knows which is planted?
		"corvo_session=a; corvo_session=a":     "",
		"corvo_sessions=a; Corvo_Session=b":    "",
		"__Host-corvo_session=a; corvo_sessio": "",
	} {
		if got := p.Session(http.Header{"Cookie": {cookie}}); got != want {
			t.Errorf("%q: %q, want %q", cookie, got, want)
		}
	}
	if From(t.Context()).Came() != "" || From(With(t.Context(), NewJar("old", ""))).Came() != "old" {
		t.Error("the jar is not handed down")
	}
}
