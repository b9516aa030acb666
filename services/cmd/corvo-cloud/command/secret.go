package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
)

// cellFlags say how the processes of a cell know each other.
type cellFlags struct {
	secretFile string
	tls        bool
	cert       string
	key        string
	ca         string

	certificate *certificate // Of cert and key, once load has read them; nil without --cell-tls.
}

func (f *cellFlags) add(c *cobra.Command) {
	fs := c.Flags()
	if c.HasSubCommands() {
		fs = c.PersistentFlags()
	}
	fs.StringVar(&f.secretFile, "cell-secret-file", "", "`FILE` with the secret that all processes of the cell share (at least 16 characters); a second line is accepted too, and changes are picked up while running")
	fs.BoolVar(&f.tls, "cell-tls", false, "use mutual TLS inside the cell; needs --cell-cert, --cell-key and --cell-ca, and https node URLs")
	fs.StringVar(&f.cert, "cell-cert", "", "certificate of this process, PEM `FILE`; it names the host that others connect to and, for a node, its --id; read again when it changes")
	fs.StringVar(&f.key, "cell-key", "", "private key of the certificate, PEM `FILE`")
	fs.StringVar(&f.ca, "cell-ca", "", "CA of the cell's certificates, PEM `FILE`")
}

// load reads the files that the flags name. Without --cell-tls there is no tls.Config.
func (f *cellFlags) load() (secrets *cellsecret.Secrets, cellTLS *tls.Config, err error) {
	if secrets, err = f.secrets(); err == nil {
		cellTLS, err = f.config()
	}
	return secrets, cellTLS, err
}

func (f *cellFlags) secrets() (*cellsecret.Secrets, error) {
	if f.secretFile == "" {
		return nil, &Failure{Exit: ExitUsage, Code: "USAGE", What: "--cell-secret-file is required",
			Fix: "create one with: (umask 077; head -c 32 /dev/urandom | base64 > cell.secret)"}
	}
	raw, err := cellsecret.ReadFile(f.secretFile)
	if err != nil {
		return nil, usagef("--cell-secret-file: %v", err)
	}
	secrets, err := cellsecret.New(raw...)
	if err != nil {
		return nil, usagef("--cell-secret-file: %s: %v", f.secretFile, err)
	}
	return secrets, nil
}

// follow reads secrets and certificate again whenever their files change, until ctx ends.
func (f *cellFlags) follow(ctx context.Context, secrets *cellsecret.Secrets, log *slog.Logger) {
	go secrets.Follow(ctx, f.secretFile, log) // Ends with ctx.
	followCertificate(ctx, f.certificate, log)
}

// config is nil without --cell-tls.
func (f *cellFlags) config() (*tls.Config, error) {
	given := f.cert != "" || f.key != "" || f.ca != ""
	if !f.tls {
		if given {
			return nil, usagef("--cell-cert, --cell-key and --cell-ca need --cell-tls")
		}
		return nil, nil
	}
	if f.cert == "" || f.key == "" || f.ca == "" {
		return nil, usagef("--cell-tls needs --cell-cert, --cell-key and --cell-ca")
	}
	cert, err := readCertificate(f.cert, f.key)
	if err != nil {
		return nil, usagef("--cell-cert and --cell-key: %v", err)
	}
	pem, err := os.ReadFile(f.ca)
	if err != nil {
		return nil, usagef("--cell-ca: %v", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, usagef("--cell-ca: no certificate in %s", f.ca)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
	cert.serves(cfg)
	cert.asks(cfg)
	f.certificate = cert
	return cfg, nil
}

// publicTLS is for the public listener, with its certificate; nil without one.
func publicTLS(certFile, keyFile string) (*tls.Config, *certificate, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil, nil
	}
	cert, err := readCertificate(certFile, keyFile)
	if err != nil {
		return nil, nil, usagef("--tls-cert and --tls-key: %v", err)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	cert.serves(cfg)
	return cfg, cert, nil
}

func schemeOf(t *tls.Config) string {
	if t != nil {
		return "https"
	}
	return "http"
}

func hostURL(t *tls.Config, host string) string { return fmt.Sprintf("%s://%s", schemeOf(t), host) }
