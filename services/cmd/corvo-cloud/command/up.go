package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/footprint"
	"github.com/corvo-cloud/corvo/services/up"
	"github.com/corvo-cloud/corvo/web"
)

type upFlags struct {
	up.Config
	proxies   string
	listen    string
	envFile   string
	mailbox   bool
	cert, key string

	afterRestore, dryRun bool
}

func (s *session) upCommand() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run the whole service in one process: control plane, console, three nodes and a proxy",
		Long: `Starts a control plane with its console, three replicated nodes and a proxy, connected
as separate processes would be, and creates the tenant "demo" with its keys. The keys are
in a file under --data that only you can read, and stay the same. A sign-in link for the
console is printed; it can be used once.

Emails, such as those of sign-up, are kept in this process and shown on a page whose
address is printed, unless --smtp names a mail server. The control plane's database is
SQLite under --data, unless --database names a PostgreSQL.

--test-payments takes payments for plans without Stripe and without money: checkout, billing
portal and invoices are pages of this process, for this machine only. What was paid is kept
under --data.

To run it for a team, give it --public-url, the address that people and workers use, and
--smtp. Use --tls-cert and --tls-key, or a reverse proxy that ends TLS, together with
--trusted-proxies. Secrets are then no longer printed; they are in the file under --data.

--env-file is written when the service is ready: CORVO_URL (the tenant's URL) and
CORVO_API_KEY for jobs, CORVO_ENDPOINT and CORVO_TOKEN for Terraform and the control
API, CORVO_CONSOLE_URL with the sign-in link, CORVO_MAILBOX_URL with the mailbox, and
CORVO_NODE_URLS for --nodes of "cell", whose --cell-secret-file is cell.secret under --data.

It is ready when most nodes are. One whose data is damaged is named in the log, and is
repaired as in any cell: "cell repair", or "node repair --data DIR/node-1" while this is stopped.

Ctrl-C stops everything within three seconds; a second one stops at once. Acknowledged
jobs are never lost.`,
		Example: `  corvo-cloud up
  corvo-cloud up --listen 127.0.0.1:0 --env-file .run/env && . .run/env
  corvo-cloud up --test-payments
  corvo-cloud up --listen :443 --public-url https://jobs.example.com --tls-cert cert.pem --tls-key key.pem --smtp mail:587`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.up(c.Context(), f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.Dir, "data", ".run/up", "data directory `DIR`")
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8080", "public `ADDRESS`; port 0 picks a free one")
	fs.StringVar(&f.proxies, "trusted-proxies", "", trustedProxiesUsage)
	fs.StringVar(&f.Domain, "domain", "localhost", "`DOMAIN` under which each tenant also has a host")
	fs.IntVar(&f.Nodes, "nodes", 3, "number of nodes: 1, 3 or 5; can't change once there is data")
	fs.IntVar(&f.Shards, "shards", 2, "number of shards; can't change once there is data")
	fs.StringVar(&f.Database, "database", "", "control plane's database `URL`: postgres://…; default SQLite under --data (env CORVO_DATABASE)")
	fs.StringVar(&f.PublicURL, "public-url", "", "`URL` at which people and workers reach --listen; default its address on this machine")
	fs.StringVar(&f.cert, "tls-cert", "", "certificate of --listen, PEM `FILE`; read again when it changes")
	fs.StringVar(&f.key, "tls-key", "", "private key of the certificate, PEM `FILE`")
	fs.StringVar(&f.MailURL, "smtp", "", "mail server, `HOST:PORT` or smtp(s)://[user:password@]host:port; default the built-in mailbox (env CORVO_SMTP)")
	fs.StringVar(&f.MailFrom, "mail-from", "", "sender `ADDRESS` of emails; default no-reply at the host of --public-url")
	fs.BoolVar(&f.mailbox, "mailbox", false, "keep emails in the built-in mailbox even if others can reach the service; nobody else gets them")
	fs.BoolVar(&f.AllowPrivateIssuers, "allow-private-issuers", false, "allow tenants' identity providers at private addresses; always allowed on loopback")
	fs.StringVar(&f.DNS, "dns", "", dnsUsage)
	fs.StringVar(&f.Payments.URL, "stripe-url", "", stripeURLUsage)
	fs.BoolVar(&f.TestPayments, "test-payments", false, "take payments on pages of this process, in place of Stripe: no money moves")
	fs.BoolVar(&f.afterRestore, "after-restore", false, afterRestoreUsage)
	fs.BoolVar(&f.dryRun, "dry-run", false, "with --after-restore: change nothing, only list")
	fs.StringVarP(&s.output, "output", "o", outputText, "`FORMAT` of the list of --after-restore: text or json")
	fs.StringVar(&f.envFile, "env-file", "", "write shell variables to `FILE` when ready")
	fs.DurationVar(&f.SyncDelay, "sync-delay", 0, "development only: add this delay to every sync of the logs")
	fs.DurationVar(&f.Heartbeat, "heartbeat", 0, "raft heartbeat and election timeout; 0 means 4s, as nodes of one process live and die together")
	return c
}

func (s *session) up(ctx context.Context, f upFlags) error {
	ignoreHangup()
	if err := forgetEnvFile(f.envFile); err != nil {
		return err
	}
	defer footprint.Manage(s.proc.Env, footprint.Shared)()
	if f.Nodes != 1 && f.Nodes != 3 && f.Nodes != 5 {
		return usagef("--nodes %d: use 1, 3 or 5", f.Nodes)
	}
	if f.Shards < 1 || f.SyncDelay < 0 || f.Heartbeat < 0 {
		return usagef("--shards must be at least 1, and --sync-delay and --heartbeat can't be negative")
	}
	if f.dryRun && !f.afterRestore {
		return errOnlyDryRun
	}
	defer s.hushAtEnd(ctx)()
	f.MailURL = mailURL(s.orEnv(f.MailURL, envSMTP))
	public, err := f.public()
	if err != nil {
		return err
	}
	f.Payments = s.payments(f.Payments.URL)
	if err := f.checkPayments(public); err != nil {
		return err
	}
	var cert *certificate
	if f.TLS, cert, err = publicTLS(f.cert, f.key); err != nil {
		return err
	}
	followCertificate(ctx, cert, s.logger())
	if f.Proxies, err = trustedProxies(f.proxies); err != nil {
		return err
	}
	if f.Listener, err = net.Listen("tcp", f.listen); err != nil {
		return listenFailure("--listen", f.listen, err)
	}
	fmt.Fprintf(s.proc.Stderr, "starting control plane, %d nodes and a proxy, data in %s ...\n", f.Nodes, f.Dir)
	f.Database, f.MailFrom, f.AllowPrivateIssuers = s.orEnv(f.Database, envDatabase), f.sender(), f.AllowPrivateIssuers || !public
	f.Version, f.Logger, f.Console = version(), s.logger(), web.Files()
	service, err := up.New(f.Config)
	if err != nil {
		return serverFailure("the service didn't start", err)
	}
	if f.afterRestore {
		r, err := service.AfterRestore(ctx, f.dryRun)
		return s.tellRestore(r, f.dryRun, err)
	}
	return serverFailure("the service stopped", s.runUp(ctx, service, public, f.envFile))
}

// public reports whether others than people on this machine reach the service, and refuses
// what is only safe, or only works, when they do not.
func (f *upFlags) public() (bool, error) {
	public := !loopbackHost(hostOf(f.listen))
	if f.PublicURL != "" {
		u, err := url.Parse(f.PublicURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return false, usagef("--public-url %q: use scheme and host only, such as https://jobs.example.com", f.PublicURL)
		}
		f.PublicURL = strings.TrimSuffix(f.PublicURL, "/")
		public = public || !loopbackHost(u.Hostname())
	}
	switch {
	case f.MailURL != "" && f.mailbox:
		return false, usagef("use --smtp or --mailbox, not both")
	case public && f.MailURL == "" && !f.mailbox:
		return false, &Failure{Exit: ExitUsage, Code: "USAGE", What: "others can reach this service, so it needs a mail server for sign-up and sign-in",
			Fix: "add --smtp HOST:PORT; to only try it out, --mailbox keeps emails on this machine"}
	}
	return public, nil
}

// checkPayments refuses test payments where somebody could take them for real ones.
func (f *upFlags) checkPayments(public bool) error {
	switch {
	case !f.TestPayments:
		return nil
	case public:
		return usagef("--test-payments only works for this machine, and others can reach this service: set up Stripe (docs/payments.md)")
	case f.Payments.Key != "" || f.Payments.URL != "":
		return usagef("use --test-payments or Stripe (%s, --stripe-url), not both", envStripeKey)
	}
	return nil
}

// sender is who writes mails.
func (f *upFlags) sender() string {
	if f.MailFrom != "" {
		return f.MailFrom
	}
	host := "corvo.localhost"
	if u, err := url.Parse(f.PublicURL); err == nil && u.Hostname() != "" {
		host = u.Hostname()
	}
	return "Corvo Cloud <no-reply@" + host + ">"
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}

func loopbackHost(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

func (s *session) runUp(ctx context.Context, service *up.Service, public bool, envFile string) error {
	return service.Run(ctx, func(i up.Info) error {
		if public {
			greetTeam(s.proc.Stdout, i)
		} else {
			greet(s.proc.Stdout, i)
		}
		return writeEnvFile(envFile, [][2]string{
			{"CORVO_URL", i.TenantURL}, {"CORVO_API_KEY", i.APIKey},
			{"CORVO_ENDPOINT", i.BaseURL}, {"CORVO_TOKEN", i.Token}, {"CORVO_CONSOLE_URL", i.SignInURL},
			{"CORVO_MAILBOX_URL", i.MailURL}, {"CORVO_NODE_URLS", strings.Join(i.NodeURLs, ",")},
		})
	})
}

// mailURL takes the short form host:port too.
func mailURL(text string) string {
	if text == "" || strings.Contains(text, "://") {
		return text
	}
	return "smtp://" + text
}

// hushAtEnd silences the log once the service ends: all nodes leave together, and
// that each misses the others is no error. --log-level debug still shows it.
func (s *session) hushAtEnd(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		if s.level.Level() > slog.LevelDebug {
			s.level.Set(slog.LevelError + 1)
		}
	})
}

// greetTeam prints no secret: what this process prints is kept in logs that others read.
func greetTeam(w io.Writer, i up.Info) {
	fmt.Fprintf(w, `
Corvo Cloud is ready: control plane, %d nodes and a proxy.

  console      %[2]s
  sign-up      %[2]s/signup
  tenant URL   %[3]s
  keys         %[4]s   (the tenant's API key and management key)
`, i.Nodes, i.BaseURL, i.TenantURL, i.CredentialsFile)
	if i.MailURL != "" {
		fmt.Fprintln(w, "  mailbox      CORVO_MAILBOX_URL of --env-file; emails only reach this mailbox")
	}
}

// greet prints what a newcomer needs. The three commands are run by a test as they
// are printed.
func greet(w io.Writer, i up.Info) {
	fmt.Fprintf(w, `
Corvo Cloud is ready: control plane, %[4]d nodes and a proxy.

  console      %[6]s   (signs you in once, as %[10]s)
  sign-up      %[7]s/signup%[8]s
  tenant URL   %[1]s
  API key      %[2]s   (saved in %[3]s)

Add a job, fetch it as a worker would, and complete it:

  curl -sS %[1]s/api/v1/enqueue -H 'X-API-Key: %[2]s' -d '{"queue":"hello","payload":{"name":"Ada"}}'
  JOB=$(curl -sS %[1]s/api/v1/fetch -H 'X-API-Key: %[2]s' -d '{"queues":["hello"],"worker_id":"me"}'); echo "$JOB"
  curl -sS %[1]s/api/v1/ack/$(echo "$JOB" | sed -E 's/.*"job_id": *"([^"]+)".*/\1/') -H 'X-API-Key: %[2]s' -d '{"result":{"said":"hello Ada"}}'

The same with the command line, and with a Go worker (from the repository):

  CORVO_URL=%[1]s CORVO_API_KEY=%[2]s %[5]s enqueue hello '{"name":"Ada"}'
  CORVO_URL=%[1]s CORVO_API_KEY=%[2]s go run ./sdks/go/examples/hello

For Terraform and the control API:

  CORVO_ENDPOINT=%[7]s CORVO_TOKEN=%[9]s

Press Ctrl-C to stop. Jobs are kept.
`, i.TenantURL, i.APIKey, i.CredentialsFile, i.Nodes, corvoBinary(), i.SignInURL, i.BaseURL, extras(i), i.Token, i.Email)
}

// extras is what was started beside the service.
func extras(i up.Info) (hint string) {
	if i.MailURL != "" {
		hint += "\n  mailbox      " + i.MailURL + "   (emails of sign-up and sign-in)"
	}
	if i.PaymentsURL != "" {
		hint += "\n  payments     " + i.BaseURL + "/demo/settings/plan   (test payments: no money moves)"
	}
	return hint
}

// corvoBinary is how to call corvo: it is built beside this program, where no
// shell looks for it.
func corvoBinary() string {
	const name = "corvo"
	self, err := os.Executable()
	if err != nil {
		return name
	}
	beside := filepath.Join(filepath.Dir(self), name)
	if info, err := os.Stat(beside); err != nil || !info.Mode().IsRegular() {
		return name
	}
	if here, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(here, beside); err == nil && !strings.HasPrefix(short, "..") {
			return "./" + short
		}
	}
	return beside
}
