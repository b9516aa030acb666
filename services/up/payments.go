package up

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/server"
	"github.com/corvo-cloud/corvo/control-plane/stripetest"
	"github.com/corvo-cloud/corvo/data-plane/api/connections"
	"github.com/corvo-cloud/corvo/services/datadir"
	"github.com/corvo-cloud/corvo/services/mailbox"
)

const (
	// paymentsFile keeps what the test payments know: the control plane's database names their
	// customers, so they have to be there after a restart too.
	paymentsFile = "payments.json"
	// portFile keeps their port, because links to invoices are kept elsewhere.
	portFile = "payments.port"
	// webhookTimeout is ample for a call within this process.
	webhookTimeout = 30 * time.Second
)

// startPayments starts the test payments, if they are wanted, on a port of their own.
func (s *Service) startPayments() error {
	if !s.cfg.TestPayments {
		return nil
	}
	listener, err := s.paymentsListener()
	if err != nil {
		return fmt.Errorf("listen for test payments: %w", err)
	}
	state, err := os.ReadFile(s.dir.Join(paymentsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, listener.Close())
	}
	key, secret := "sk_test_"+rand.Text(), "whsec_"+rand.Text() // Of this process; nobody else needs them.
	stripe, err := stripetest.Open(stripetest.Options{
		URL: "http://" + listener.Addr().String(), Key: key, Now: time.Now, State: state,
		Save: func(state []byte) error { return datadir.WriteFile(s.dir.Join(paymentsFile), state) },
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.payments = stripe
	s.cfg.Payments = server.Payments{Key: key, WebhookSecrets: []string{secret}, URL: stripe.URL, Account: stripe.Account()}
	s.serveLocal("test payments", listener, mailbox.LocalOnly("Test payments are", stripe))
	return nil
}

// paymentsListener listens where it did at the last start, if it can.
func (s *Service) paymentsListener() (net.Listener, error) {
	last, err := os.ReadFile(s.dir.Join(portFile))
	if err == nil {
		if l, err := net.Listen("tcp", string(last)); err == nil {
			return l, nil
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return l, datadir.WriteFile(s.dir.Join(portFile), []byte(l.Addr().String()))
}

// openShop brings the catalog up to date and begins to tell the control plane what is paid.
func (s *Service) openShop(ctx context.Context) error {
	if s.payments == nil {
		return nil
	}
	list, err := s.control.SyncStripe(ctx)
	if err != nil {
		return fmt.Errorf("bring the catalog of the test payments up to date: %w", err)
	}
	for _, d := range list {
		if d.Action == server.Conflict {
			s.log.Warn("the test payments have another price than the plan", "price", d.Name, "difference", d.Detail)
		}
	}
	to := stripetest.Webhook{URL: s.here + server.WebhookPath, Secret: s.cfg.Payments.WebhookSecrets[0]}
	client := s.selfClient()
	client.Timeout = webhookTimeout
	s.loops.Go(func() {
		s.payments.Run(s.life, client, to, func(err error) { s.log.Warn("test payments", "error", err) })
	})
	return nil
}

// serveLocal serves pages of this machine until the service ends.
func (s *Service) serveLocal(what string, l net.Listener, h http.Handler) {
	pages := &http.Server{Handler: h, ReadHeaderTimeout: localReadHeader, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	context.AfterFunc(s.life, func() { _ = pages.Close() }) // Serve tells what matters.
	s.loops.Go(func() {
		if err := pages.Serve(connections.Patient(l, s.log)); !errors.Is(err, http.ErrServerClosed) {
			s.fail(fmt.Errorf("serve the %s: %w", what, err))
		}
	})
}
