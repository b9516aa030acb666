package up

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/server"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/services/mailbox"
)

const (
	cellName = "local"
	// localReadHeader bounds a request to the mailbox page or the test payments.
	localReadHeader = 5 * time.Second
)

// startMailbox takes the mails of this process, unless a mail server was named.
func (s *Service) startMailbox() error {
	if s.cfg.MailURL != "" {
		return nil
	}
	box, err := mailbox.New(mailbox.Options{Console: s.base + "/", Logger: s.log})
	if err != nil {
		return fmt.Errorf("start the mailbox: %w", err)
	}
	s.mailbox = box
	s.loops.Go(func() { s.fail(box.Run(s.life)) })
	return s.serveMailbox()
}

// serveMailbox shows the mailbox on a port of its own: whatever is in front of the public
// one does not carry it on.
func (s *Service) serveMailbox() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the mailbox: %w", err)
	}
	s.mailURL = "http://" + listener.Addr().String() + s.mailbox.Path()
	s.serveLocal("mailbox", listener, s.mailbox.Handler())
	return nil
}

// startControl builds the control plane over this process's cell; its loops run until
// the service stops.
func (s *Service) startControl(ctx context.Context) error {
	control, err := server.New(ctx, s.controlConfig())
	if err != nil {
		return fmt.Errorf("start the control plane: %w", err)
	}
	s.control = control
	s.loops.Go(func() { s.fail(control.Run(s.life)) })
	return nil
}

// controlConfig is for a control plane over nodes and mailbox, which run.
func (s *Service) controlConfig() server.Config {
	database := s.cfg.Database
	database = cmp.Or(database, "sqlite:"+s.dir.Join("control.db"))
	mail := server.Mail{URL: s.cfg.MailURL, From: s.cfg.MailFrom}
	if s.mailbox != nil {
		mail.URL = "smtp://" + s.mailbox.Addr()
	}
	return server.Config{
		Database:  database,
		PublicURL: s.base, TenantURL: s.tenantURL,
		Cells:      []server.Cell{{Name: cellName, URLs: s.urls, Secrets: s.cellSecrets, SharesClock: true}},
		MasterKeys: s.masters, Mail: mail, Console: s.cfg.Console,
		AllowPrivateIssuers: s.cfg.AllowPrivateIssuers, DNS: s.cfg.DNS, Payments: s.cfg.Payments,
		// The listener in front of it, in this process, has written who the client is.
		Peer:    func(r *http.Request) string { return r.Header.Get("X-Forwarded-For") },
		Version: s.cfg.Version, Logger: s.log.With("part", "control"),
	}
}

// AfterRestore makes a database that was restored from an older copy the one that the cell goes
// by, instead of Run. Only what it needs is started, and stopped at the end.
func (s *Service) AfterRestore(ctx context.Context, dryRun bool) (r server.RestoreReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if _, err = s.prepare(ctx); err == nil {
		r, err = server.AfterRestore(ctx, s.controlConfig(), dryRun)
	}
	return r, errors.Join(err, s.cfg.Listener.Close(), s.stop(), s.dir.Release())
}

// ensureDemo makes the demo tenant, through the same API as everybody's.
func (s *Service) ensureDemo(ctx context.Context, cell *cellv1.State, creds credentials) error {
	demo, err := seed(cell, creds)
	if err != nil {
		return err
	}
	if err := s.control.Ensure(ctx, demo); err != nil {
		return fmt.Errorf("make the tenant %s: %w", demo.Tenant, err)
	}
	return nil
}

func (s *Service) tenantURL(tenant string) string { return s.base + "/t/" + tenant }

// fail notes the end of a part that ended by itself.
func (s *Service) fail(err error) {
	if err == nil || s.life.Err() != nil {
		return
	}
	select {
	case s.failed <- err:
	default: // Another one failed before; one is enough to stop.
	}
}
