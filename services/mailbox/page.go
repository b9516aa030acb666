package mailbox

import (
	"bytes"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"html/template"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// shownMax emails stand on the page; the rest is in the JSON.
	shownMax = 50
	// shownBytesMax of each text.
	shownBytesMax = 64 << 10
)

// Everything the page uses is its own; an email's HTML is never rendered.
const pageSecurity = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

var (
	//go:embed page.html
	pageText string
	//go:embed page.css
	styleText []byte
	//go:embed page.js
	scriptText []byte
)

var page = template.Must(template.New("page").Parse(pageText))

// Handler serves Path and what is below it, to this machine only.
func (m *Mailbox) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /mail", m.showPage)
	mux.HandleFunc("GET /mail/messages", m.listMessages)
	mux.HandleFunc("GET /mail/messages/{id}", m.showMessage)
	mux.HandleFunc("GET /mail/page.css", asset("text/css; charset=utf-8", styleText))
	mux.HandleFunc("GET /mail/page.js", asset("text/javascript; charset=utf-8", scriptText))
	below := http.StripPrefix("/"+m.secret, mux)
	return LocalOnly("The development mailbox is", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", pageSecurity)
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if !m.knowsSecret(r.URL.Path) {
			http.Error(w, "Page not found. Open the mailbox at the address that was printed when it started.", http.StatusNotFound)
			return
		}
		below.ServeHTTP(w, r)
	}))
}

// LocalOnly answers requests from this machine, under a local name, that no proxy carried. The
// others are told that what is only available here.
func LocalOnly(what string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !fromThisMachine(r.RemoteAddr) || !localName(r.Host) || forwarded(r.Header) {
			http.Error(w, what+" only available on this machine, at http://127.0.0.1 and not through a proxy.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// knowsSecret compares the first part of the path without telling by time how much of it
// is right.
func (m *Mailbox) knowsSecret(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return subtle.ConstantTimeCompare([]byte(first), []byte(m.secret)) == 1
}

// forwarded reports whether something carried the request here: its asker may be anywhere.
// Whoever carries it without a word is stopped by the secret in the path.
func forwarded(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded") || slices.Contains(carriers, name) {
			return true
		}
	}
	return false
}

// carriers are headers that proxies and tunnels add, in canonical form.
var carriers = []string{
	"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "X-Envoy-External-Address",
	"True-Client-Ip", "Cf-Connecting-Ip", "Cf-Ray", "Fastly-Client-Ip", "Fly-Client-Ip", "Tailscale-User-Login", "X-Original-Host",
}

func fromThisMachine(remote string) bool {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// localName refuses names of strangers, which they can make point here to let their
// pages read the mail.
func localName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func asset(kind string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(body) // The asker is gone: nobody to tell.
	}
}

// listMessages tells the newest first; ?limit=n only so many.
func (m *Mailbox) listMessages(w http.ResponseWriter, r *http.Request) {
	list := m.Messages()
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			http.Error(w, "limit: must be a number, at least 1", http.StatusBadRequest)
			return
		}
		list = list[:min(n, len(list))]
	}
	m.writeJSON(w, list)
}

func (m *Mailbox) showMessage(w http.ResponseWriter, r *http.Request) {
	msg := m.find(r.PathValue("id"))
	if msg == nil {
		http.Error(w, "Email not found. The last 200 emails are kept while the program runs.", http.StatusNotFound)
		return
	}
	m.writeJSON(w, msg)
}

func (m *Mailbox) writeJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		m.log.Error("marshal mail", "err", err)
		http.Error(w, "Couldn't write the emails.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // The asker is gone: nobody to tell.
}

// shown is an email as the page shows it.
type shown struct {
	*Message

	Pieces []piece
	Arrived,
	ArrivedISO string
	// OnlyHTML: there is no text to show.
	OnlyHTML, Cut bool
}

// piece is a run of text or one link.
type piece struct{ Text, Link string }

func (m *Mailbox) showPage(w http.ResponseWriter, _ *http.Request) {
	all := m.Messages()
	view := struct {
		Newest, Console string
		Total           int
		Emails          []shown
	}{Total: len(all), Console: m.console}
	if len(all) > 0 {
		view.Newest = all[0].ID
	}
	for _, msg := range all[:min(shownMax, len(all))] {
		view.Emails = append(view.Emails, show(msg))
	}
	var body bytes.Buffer
	if err := page.Execute(&body, view); err != nil {
		m.log.Error("write the page", "err", err)
		http.Error(w, "Couldn't write the page.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(body.Bytes()) // The asker is gone: nobody to tell.
}

func show(msg *Message) shown {
	text := msg.Text
	cut := len(text) > shownBytesMax
	if cut {
		text = strings.ToValidUTF8(text[:shownBytesMax], "")
	}
	return shown{
		Message: msg, Pieces: pieces(text), Cut: cut, OnlyHTML: text == "" && msg.HTML != "",
		Arrived: msg.Date.Local().Format("2 January 2006, 15:04:05"), ArrivedISO: msg.Date.Format(time.RFC3339),
	}
}

// A link ends where an email's layout begins; html/template looks at its scheme.
var link = regexp.MustCompile(`https?://[^\s<>"]+`)

func pieces(text string) []piece {
	var out []piece
	for {
		at := link.FindStringIndex(text)
		if at == nil {
			break
		}
		// A sentence's punctuation is not the link's.
		end := at[0] + len(strings.TrimRight(text[at[0]:at[1]], ".,;:!?)'"))
		if at[0] > 0 {
			out = append(out, piece{Text: text[:at[0]]})
		}
		out = append(out, piece{Link: text[at[0]:end]})
		text = text[end:]
	}
	if text != "" {
		out = append(out, piece{Text: text})
	}
	return out
}
