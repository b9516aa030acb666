package corvo

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// parseAddress reads a base URL in any of its forms:
//
//	https://acme.corvo.example       a tenant's host
//	http://127.0.0.1:8080/t/acme     a tenant's path on a shared host
//	https://corvo.example            the bare address, the tenant follows from the key
//	127.0.0.1:8080                   without a scheme
//
// Without a scheme it is https, except on loopback: a key must not travel in
// clear text because somebody left out eight letters.
func parseAddress(text string) (*url.URL, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("no server address: pass corvo.WithURL or set CORVO_URL")
	}
	bare := !strings.Contains(text, "://")
	if bare {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse server address: %w", err)
	}
	if bare && isLoopback(u.Hostname()) {
		u.Scheme = "http"
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("server address has scheme %q, want http or https", u.Scheme)
	case u.Host == "" || u.Hostname() == "":
		return nil, errors.New("server address has no host")
	case u.User != nil:
		return nil, errors.New("server address must not hold credentials: pass the key with corvo.WithAPIKey or CORVO_API_KEY")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("server address must not have a query or a fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	return u, nil
}

func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
