package proxy

import (
	"net/http"
	"strings"

	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
)

// Path prefixes of the data plane. Everything else is not found.
const (
	prefixTenant = "/t/"
	prefixAPI    = "/api/v1/"
	prefixRPC    = "/corvo.v1."
	pathInfo     = "/api/v1/info"
	// pathServerInfo is pathInfo as an RPC: no key is needed, but one that is sent is
	// checked.
	pathServerInfo = corvov1connect.WorkerServiceGetServerInfoProcedure
	pathEvents     = "/api/v1/events"
	prefixBulk     = "/api/v1/bulk/"
	pathOpenAPI    = "/openapi.json"
)

// reserved names are never tenants: their hosts and paths belong to the service.
func reserved(name string) bool {
	switch name {
	case "app", "api", "www", "admin", "mail", "t", "docs", "status":
		return true
	}
	return false
}

// address is what a request's URL names: the tenant, if any, and the path of the
// data plane.
type address struct {
	// hostTenant and pathTenant are empty in the bare form.
	hostTenant string
	pathTenant string
	// path is the decoded path without /t/<tenant>.
	path string
	// base is the tenant URL as the client used it.
	base string
}

// agrees reports whether everything the address says about a tenant is name.
func (a address) agrees(name string) bool {
	return (a.hostTenant == "" || a.hostTenant == name) && (a.pathTenant == "" || a.pathTenant == name)
}

// open reports whether the path needs no key.
func (a address) open() bool {
	return a.path == pathInfo || a.path == pathOpenAPI
}

// events reports whether the path always answers with an event stream.
func (a address) events() bool {
	return a.path == pathEvents || strings.HasPrefix(a.path, prefixBulk) && strings.HasSuffix(a.path, "/progress")
}

func (a address) rpc() bool { return strings.HasPrefix(a.path, prefixRPC) }

// known reports whether the path is one of the data plane's.
func (a address) known() bool {
	return strings.HasPrefix(a.path, prefixAPI) && a.path != prefixAPI || a.rpc() || a.path == pathOpenAPI
}

// parseAddress reads the three forms of a tenant's address, which the client used with
// scheme.
func parseAddress(r *http.Request, domain, scheme string) (address, *refusal) {
	if !canonical(r) {
		return address{}, refuseBadPath
	}
	a := address{path: r.URL.Path, hostTenant: tenantOfHost(r.Host, domain)}
	if r.Host != "" { // HTTP/1.0 has none.
		a.base = scheme + "://" + r.Host
	}
	if rest, ok := strings.CutPrefix(a.path, prefixTenant); ok {
		name, path, ok := strings.Cut(rest, "/")
		if !ok || name == "" || reserved(name) {
			return address{}, refuseNotFound
		}
		a.pathTenant, a.path = name, "/"+path
		if a.base != "" {
			a.base += prefixTenant + name
		}
	}
	return a, nil
}

// tenantOfHost is the label before the domain; empty for the domain itself,
// reserved labels and hosts that are not under the domain (an IP address, a name
// of the operator's own), which are addresses by key alone.
func tenantOfHost(host, domain string) string {
	if !strings.HasPrefix(host, "[") {
		host, _, _ = strings.Cut(host, ":")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	name, ok := strings.CutSuffix(host, "."+domain)
	if !ok || reserved(name) {
		return ""
	}
	return name
}

// TenantOfHost is the tenant that a request's host names under a domain, or empty:
// then the path or the key may name it.
func TenantOfHost(host, domain string) string { return tenantOfHost(host, strings.ToLower(domain)) }

// Canonical reports whether the proxy takes the spelling of r's path. A handler in
// front of it that routes by path must refuse what it refuses.
func Canonical(r *http.Request) bool { return canonical(r) }

// canonical refuses every path that two readers could understand differently:
// empty and dot segments, encoded slashes, backslashes and control characters.
// Queue names and ids never need any of them.
func canonical(r *http.Request) bool {
	path := r.URL.Path
	if path == "" || path[0] != '/' || strings.Contains(path, "//") || strings.ContainsAny(path, "\\;") {
		return false
	}
	for i := range len(path) {
		if path[i] < 0x20 || path[i] == 0x7f {
			return false
		}
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		if segment == "." || segment == ".." {
			return false
		}
	}
	if strings.IndexByte(path, '%') >= 0 { // Encoded twice.
		return false
	}
	// RawPath is set only when the path was spelled in an unusual way.
	raw := strings.ToLower(r.URL.RawPath)
	return raw == "" || !strings.Contains(raw, "%2f") && !strings.Contains(raw, "%2e") && !strings.Contains(raw, "%5c")
}
