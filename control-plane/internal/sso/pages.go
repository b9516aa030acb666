package sso

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

//go:embed templates
var templates embed.FS

var pageHTML = template.Must(template.ParseFS(templates, "templates/page.html"))

// page is what the template fills in.
type page struct {
	Title, Text string
	// Good marks a result that was hoped for.
	Good      bool
	Facts     []fact
	Links     []link
	RequestID string
}

type (
	fact struct{ Name, Value string }
	link struct{ Label, URL string }
)

// fail shows a problem; tenant names whose sign-in could be started again.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, err error, isTrial bool, tenant string) {
	p := problemOf(err)
	id := access.From(r.Context()).RequestID
	s.Log.WarnContext(r.Context(), "single sign-on ended without a session", "request_id", id, "status", p.status, "problem", clip(p.Error()), "trial", isTrial)
	if s.Refused != nil && tenant != "" && !isTrial {
		s.Refused(r.Context(), tenant, p.text)
	}
	out := page{Title: p.title, Text: sentence(p.text), RequestID: id}
	switch {
	case isTrial:
		out.Title = "Test sign-in failed"
		if said := trialText(err); said != p.text {
			out.Facts = []fact{{"Details", said}}
		}
		out.Text += " Close this window, change the connection in the console, and try again."
	case tenant != "":
		out.Links = []link{{"Try again", startPath + "?tenant=" + url.QueryEscape(tenant)}, {"Other ways to sign in", signinPath}}
	default:
		out.Links = []link{{"Sign in", signinPath}}
	}
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	s.show(w, r, p.status, out)
}

// sentence begins with a capital and ends with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	b := []byte(text)
	if b[0] >= 'a' && b[0] <= 'z' {
		b[0] -= 'a' - 'A'
	}
	if last := b[len(b)-1]; last != '.' && last != '?' && last != '!' {
		b = append(b, '.')
	}
	return string(b)
}

func (s *Service) showChoice(w http.ResponseWriter, r *http.Request, t store.Tenant, all []store.Connection) {
	out := page{Title: "Choose how to sign in", Text: "Your company uses more than one identity provider.", Good: true}
	next := safeNext(r.URL.Query().Get("next"))
	for _, c := range all {
		if !c.Enabled {
			continue
		}
		out.Links = append(out.Links, link{c.Name, startURL(t, c, next)})
	}
	s.show(w, r, http.StatusOK, out)
}

func startURL(t store.Tenant, c store.Connection, next string) string {
	return startPath + "?" + url.Values{"tenant": {t.Name}, "connection": {c.ID}, "next": {next}}.Encode()
}

func (s *Service) showContinue(w http.ResponseWriter, r *http.Request, t store.Tenant, c store.Connection) {
	s.show(w, r, http.StatusOK, page{
		Title: "Sign in to " + t.Name, Good: true,
		Text:  "You came here from another site. Continue only if you want to sign in to this tenant of Corvo Cloud. Anyone else who is signed in with this browser will be signed out.",
		Links: []link{{"Continue", startURL(t, c, safeNext(r.URL.Query().Get("next")))}},
	})
}

func (s *Service) showTrial(w http.ResponseWriter, r *http.Request, c store.Connection, t trial) {
	out := page{
		Title: "Test sign-in succeeded", Good: true,
		Text: "Nobody was signed in and nothing was changed. Close this window, then enable the connection in the console.",
		Facts: []fact{
			{"Connection", c.Name}, {"Issuer", c.Issuer}, {"Subject", clip(t.Subject)}, {"Email", cmp.Or(t.Email, "none")},
		},
	}
	role := "none: this person couldn't sign in"
	if t.Role != "" {
		role = roleText(string(t.Role))
	}
	out.Facts = append(out.Facts, fact{"Role", role})
	out.Facts = append(out.Facts, fact{"Groups", groupsText(t.Groups, c.GroupsClaim)})
	if isSAML(c) {
		out.Facts = append(out.Facts, fact{"Attributes", listed(t.Claims)})
	}
	s.show(w, r, http.StatusOK, out)
}

func groupsText(groups []string, claim string) string {
	const shown = 20
	if len(groups) == 0 {
		return "no groups in the claim " + claim
	}
	var b strings.Builder
	for i, g := range groups[:min(len(groups), shown)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(clip(g))
	}
	if len(groups) > shown {
		b.WriteString(", …")
	}
	return b.String()
}

func (s *Service) show(w http.ResponseWriter, r *http.Request, status int, p page) {
	var body bytes.Buffer
	if err := pageHTML.Execute(&body, p); err != nil {
		s.Log.ErrorContext(r.Context(), "fill in a page", "error", err)
		http.Error(w, "something went wrong on our side", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // The browser may be gone.
}

func style(w http.ResponseWriter, r *http.Request) {
	http.ServeFileFS(w, r, templates, "templates/style.css")
}
