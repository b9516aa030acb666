package command

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// certificateEvery is how often the files of a certificate are read again.
	certificateEvery = 10 * time.Second
	// expiryWarning is how long before its end a certificate is reported, once a day: whoever
	// renews certificates does so weeks before.
	expiryWarning = 7 * 24 * time.Hour
	expiryEvery   = 24 * time.Hour
)

// certificate is a certificate with its key, of two files that are read again while the
// process runs: short-lived ones are renewed without restarts.
type certificate struct {
	certFile, keyFile string
	now               atomic.Pointer[tls.Certificate]

	// The goroutine that follows the files has the rest to itself.
	read   []byte    // What the files had in them.
	said   string    // What was wrong with them, which was reported.
	warned time.Time // When its end was reported.
}

func readCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	_, err := c.renew()
	return c, err
}

// renew reads the files, and reports whether there is another certificate in them.
func (c *certificate) renew() (changed bool, err error) {
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return false, err
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return false, err
	}
	read := append(append(cert[:len(cert):len(cert)], 0), key...)
	if bytes.Equal(read, c.read) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("%s and %s: %w", c.certFile, c.keyFile, err)
	}
	c.read, c.warned = read, time.Time{}
	return c.now.Swap(&pair) != nil, nil
}

// followCertificate reads a certificate's files again until ctx ends; nil is none.
func followCertificate(ctx context.Context, c *certificate, log *slog.Logger) {
	if c != nil {
		go c.follow(ctx, certificateEvery, log) // Ends with ctx.
	}
}

// follow reads the files again and again until ctx ends.
func (c *certificate) follow(ctx context.Context, every time.Duration, log *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		c.look(time.Now(), log)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look reads the files once, and says what somebody has to know.
func (c *certificate) look(now time.Time, log *slog.Logger) {
	changed, err := c.renew()
	end := c.now.Load().Leaf.NotAfter
	said := ""
	if err != nil {
		said = err.Error()
	}
	switch {
	case said != "" && said != c.said:
		log.Error("a certificate can't be used; the one read before stays in use", "err", err)
	case changed:
		log.Warn("a certificate has changed", "file", c.certFile, "expires", end.UTC())
	}
	c.said = said
	if end.Sub(now) < expiryWarning && now.Sub(c.warned) >= expiryEvery {
		c.warned = now
		log.Error("a certificate has expired or will soon; replace its files, which are read again while the process runs", "file", c.certFile, "expires", end.UTC())
	}
}

// serves puts the certificate into the configuration of a listener.
func (c *certificate) serves(to *tls.Config) {
	to.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil }
}

// asks puts the certificate into the configuration of a client.
func (c *certificate) asks(to *tls.Config) {
	to.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.now.Load(), nil }
}

// ignoreHangup keeps a process whose certificate somebody means to have read again by SIGHUP,
// as other servers do. One in a terminal ends with it.
func ignoreHangup() {
	if terminal, err := os.Open("/dev/tty"); err == nil {
		_ = terminal.Close() // It was only asked for.
		return
	}
	signal.Ignore(syscall.SIGHUP)
}
