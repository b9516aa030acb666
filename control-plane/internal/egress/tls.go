package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// portSyslog is that of syslog over TLS (RFC 5425).
const portSyslog = "6514"

// CheckHost tells whether DialTLS would call a host at all, as far as that can be told
// without asking anybody. Its error is for people.
func (o Options) CheckHost(host, port string) error {
	switch {
	case host == "" || len(host) > hostMax || strings.HasSuffix(host, ".") || strings.ContainsFunc(host, notHostRune):
		return fmt.Errorf("%w: the host name can only have letters, digits, dots and hyphens, and no dot at the end (write other characters as xn--…)", ErrAddress)
	case !o.AllowPrivate && port != portSyslog && port != portHTTPS:
		return fmt.Errorf("%w: only ports %s and %s are allowed", ErrAddress, portSyslog, portHTTPS)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return o.checkAddr(a)
	}
	return nil
}

// DialTLS connects to a host under the same rules as a client. roots may have signed its
// certificate; nil: those of the system.
func DialTLS(ctx context.Context, o Options, host, port string, roots *x509.CertPool) (*tls.Conn, error) {
	if err := o.CheckHost(host, port); err != nil {
		return nil, err
	}
	o.Resolver = cmp.Or[Resolver](o.Resolver, net.DefaultResolver)
	g := &guard{options: o, dialer: net.Dialer{Timeout: dialTimeout}}
	plain, err := g.dial(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	config.ServerName = host
	if roots != nil {
		config.RootCAs = roots
	}
	conn := tls.Client(plain, config)
	hello, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := conn.HandshakeContext(hello); err != nil {
		_ = plain.Close() // The handshake's error says more.
		return nil, fmt.Errorf("TLS handshake with %s: %w", host, err)
	}
	return conn, nil
}
