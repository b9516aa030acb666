package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/connections"
	"github.com/corvo-cloud/corvo/data-plane/api/footprint"
	"github.com/corvo-cloud/corvo/services/mailbox"
)

type mailboxFlags struct {
	smtp    string
	listen  string
	envFile string
}

func (s *session) mailboxCommand() *cobra.Command {
	var f mailboxFlags
	c := &cobra.Command{
		Use:   "mailbox",
		Short: "Run a mail server for development that shows every email it gets",
		Long: `Takes every email it is sent, delivers none, and keeps the last ones in memory. It shows
them on a page at the address it prints, and as JSON below it at /messages. The address
holds a secret, because these emails can sign people in. "up" has a mailbox built in.`,
		Example: `  corvo-cloud mailbox --smtp 127.0.0.1:2525 --listen 127.0.0.1:8025`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return s.mailbox(c.Context(), f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.smtp, "smtp", "127.0.0.1:2525", "SMTP `ADDRESS`, on loopback")
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8025", "`ADDRESS` of the page; port 0 picks a free one")
	fs.StringVar(&f.envFile, "env-file", "", "write CORVO_MAILBOX_URL to `FILE` when ready")
	return c
}

func (s *session) mailbox(ctx context.Context, f mailboxFlags) error {
	ignoreHangup()
	if err := forgetEnvFile(f.envFile); err != nil {
		return err
	}
	defer footprint.Manage(s.proc.Env, footprint.Shared)()
	box, err := mailbox.New(mailbox.Options{Addr: f.smtp, Logger: s.logger()})
	if err != nil {
		return listenFailure("--smtp", f.smtp, err)
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return listenFailure("--listen", f.listen, err)
	}
	front := &http.Server{Handler: box.Handler(), ReadHeaderTimeout: controlReadHeader, IdleTimeout: controlIdle}
	failed := make(chan error, 2)
	go func() { failed <- box.Run(ctx) }()                                           // Ends with ctx.
	go func() { failed <- front.Serve(connections.Patient(listener, s.logger())) }() // Ends with Close.
	url := "http://" + listener.Addr().String() + box.Path()
	err = s.serving(ctx, fmt.Sprintf("mailbox %s, smtp %s", url, box.Addr()), f.envFile, "CORVO_MAILBOX_URL", url, failed)
	if ctx.Err() != nil {
		err = nil
	}
	return serverFailure("the mailbox stopped", errors.Join(err, front.Close()))
}
