// Package browser is what a public listener does because of browsers: where a request's
// key may be, cookies included, and what pages of other sites may read. The proxy and a
// node without one share it. It knows no keys and no routes.
//
// Surprising: allowing the origin "*" keeps cookies out, because browsers send none with
// such requests; from other sites come only keys that a page sends on purpose.
package browser

import (
	"net/http"
	"strings"
)

const keyCookie = "corvo_api_key"

// Credential is the key or token text of r. The order is the contract's: header,
// bearer, cookie. Two different keys in one place count as none, because readers could
// differ in which one counts. A key from a cookie counts only if the browser says that
// its own site sent the request (http.CrossOriginProtection).
func Credential(r *http.Request) (text string, fromCookie bool) {
	switch vs := r.Header["X-Api-Key"]; {
	case len(vs) > 1:
		return "", false
	case len(vs) == 1 && vs[0] != "":
		return vs[0], false
	}
	switch vs := r.Header["Authorization"]; {
	case len(vs) > 1:
		return "", false
	case len(vs) == 1 && vs[0] != "":
		scheme, token, _ := strings.Cut(vs[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", false
		}
		return strings.TrimSpace(token), false
	}
	switch cs := r.CookiesNamed(keyCookie); len(cs) {
	case 1:
		return cs[0].Value, true
	default:
		return "", false
	}
}

// HasCredential reports whether r has any credential, good or bad.
func HasCredential(r *http.Request) bool {
	return r.Header["X-Api-Key"] != nil || r.Header["Authorization"] != nil || len(r.CookiesNamed(keyCookie)) > 0
}

// AllowOrigins lets pages of any origin read the answer: keys are sent on purpose,
// and with "*" browsers send no cookies.
func AllowOrigins(h http.Header) {
	h["Access-Control-Allow-Origin"] = []string{"*"}
	h["Access-Control-Expose-Headers"] = []string{"X-Request-Id, RateLimit, RateLimit-Policy, Corvo-Dispatch-Held, Retry-After, Retry-After-Ms, X-Corvo-Index, Server-Timing, ETag, " +
		"Idempotent-Replayed, Corvo-Error-Code, Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin"}
}

// Preflight answers a browser's preflight request, before it sends a key from
// another origin.
func Preflight(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization, X-API-Key, X-Corvo-Namespace, X-Corvo-Index, "+
		"Idempotency-Key, If-Match, Traceparent, Last-Event-ID, Connect-Protocol-Version, Connect-Timeout-Ms, X-Grpc-Web, X-User-Agent, Grpc-Timeout")
	h.Set("Access-Control-Max-Age", "7200")
	w.WriteHeader(http.StatusOK)
}
