package keycloak_test

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// browser is a person's browser without a screen: it keeps cookies, follows redirects, fills
// in Keycloak's form, and posts forms that post themselves.
type browser struct {
	t      *testing.T
	client *http.Client
	// posted is the form that Keycloak last had it post, and where.
	posted   url.Values
	postedTo string
	// departed is the address at Keycloak to which it was last sent.
	departed *url.URL
	// stopAt is a path that it does not open; the page has the address.
	stopAt string
}

// page is where it stopped.
type page struct {
	url    *url.URL
	status int
	body   string
}

func (p page) String() string { return fmt.Sprintf("%d %s\n%s", p.status, p.url, text(p.body)) }

var tag = regexp.MustCompile(`(?s)<(style|script|svg|head).*?</(style|script|svg|head)>|<[^>]*>`)

// text is a page without its markup.
func text(body string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tag.ReplaceAllString(body, " "))), " ")
}

// loopbackJar sends cookies marked Secure to this machine over plain http, as browsers do.
type loopbackJar struct{ *cookiejar.Jar }

// SetCookies implements http.CookieJar.
func (j loopbackJar) SetCookies(u *url.URL, all []*http.Cookie) {
	for _, c := range all {
		c.Secure = false
	}
	j.Jar.SetCookies(u, all)
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	check(t, err)
	return &browser{t: t, client: &http.Client{
		Jar: loopbackJar{jar}, Timeout: 30 * time.Second, Transport: &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// visit opens an address and goes on until a page needs a person.
func (b *browser) visit(address string) page {
	b.t.Helper()
	p := b.step(b.client, http.MethodGet, address, nil, "none")
	const hopsMax = 15
	for range hopsMax {
		switch {
		case p.status >= 300 && p.status < 400 && b.stopAt != "" && strings.Contains(p.body, b.stopAt):
			b.stopAt = ""
			return p
		case p.status >= 300 && p.status < 400:
			p = b.step(b.client, http.MethodGet, p.body, nil, "cross-site")
			if strings.Contains(p.url.Path, "/realms/") && p.url.Query().Has("SAMLRequest") {
				b.departed = p.url
			}
		case strings.Contains(p.body, `id="kc-form-login"`):
			action, _ := form(b.t, p)
			p = b.step(b.client, http.MethodPost, action, url.Values{"username": {"ada"}, "password": {password}, "credentialId": {""}}, "same-origin")
		case strings.Contains(p.body, `name="SAMLResponse"`) || strings.Contains(p.body, `name="SAMLRequest"`):
			b.postedTo, b.posted = form(b.t, p)
			p = b.post(b.postedTo, b.posted)
		default:
			return p
		}
	}
	b.t.Fatalf("no page after %d addresses, the last was %s", hopsMax, p)
	return p
}

// post sends a form from another site: browsers send no cookie of ours with it.
func (b *browser) post(to string, form url.Values) page {
	b.t.Helper()
	bare := *b.client
	jar, err := cookiejar.New(nil)
	check(b.t, err)
	bare.Jar = jar
	p := b.step(&bare, http.MethodPost, to, form, "cross-site")
	b.client.Jar.SetCookies(p.url.ResolveReference(&url.URL{Path: "/"}), jar.Cookies(p.url)) // Set by the answer, all the same.
	return p
}

// step is one request; of a redirect, the body is the address.
func (b *browser) step(client *http.Client, method, address string, form url.Values, site string) page {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, address, strings.NewReader(form.Encode()))
	check(b.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Sec-Fetch-Site", site)
	req.Header.Set("Accept", "text/html")
	res, err := client.Do(req)
	check(b.t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	check(b.t, err)
	p := page{url: req.URL, status: res.StatusCode, body: string(raw)}
	if to, err := res.Location(); err == nil {
		p.body = to.String()
	}
	return p
}

var (
	formTag  = regexp.MustCompile(`(?is)<form[^>]*>`)
	inputTag = regexp.MustCompile(`(?is)<input[^>]*>`)
	pair     = regexp.MustCompile(`(?is)\b(action|name|value)="([^"]*)"`)
)

// form reads the one form of a page.
func form(t *testing.T, p page) (action string, fields url.Values) {
	t.Helper()
	fields = url.Values{}
	for _, m := range pair.FindAllStringSubmatch(formTag.FindString(p.body), -1) {
		if strings.EqualFold(m[1], "action") {
			action = html.UnescapeString(m[2])
		}
	}
	for _, in := range inputTag.FindAllString(p.body, -1) {
		var name, value string
		for _, m := range pair.FindAllStringSubmatch(in, -1) {
			if strings.EqualFold(m[1], "name") {
				name = html.UnescapeString(m[2])
			} else {
				value = html.UnescapeString(m[2])
			}
		}
		fields.Set(name, value)
	}
	to, err := p.url.Parse(action)
	check(t, err)
	return to.String(), fields
}

// call makes a call of the console at Corvo.
func (b *browser) call(ctx context.Context, base, procedure, in string) (status int, answer string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/corvo.cloud.v1."+procedure, strings.NewReader(in))
	check(b.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", base)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	res, err := b.client.Do(req)
	check(b.t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	check(b.t, err)
	return res.StatusCode, string(raw)
}
