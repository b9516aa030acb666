package command

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/control-plane/server"
	"github.com/corvo-cloud/corvo/data-plane/api/clientnet"
	"github.com/corvo-cloud/corvo/data-plane/api/footprint"
	"github.com/corvo-cloud/corvo/services/proxy"
	"github.com/corvo-cloud/corvo/web"
)

type controlFlags struct {
	server.Config
	listen          string
	tenantURL       string
	nodes           string
	cellName        string
	cell            cellFlags
	masterKeyFile   string
	proxies         string
	cert, key       string
	shutdownTimeout time.Duration
	envFile         string
	afterRestore    bool
	dryRun          bool
}

func (s *session) controlCommand() *cobra.Command {
	var f controlFlags
	c := &cobra.Command{
		Use:   "control",
		Short: "Run the control plane and its console",
		Long: `Runs the control plane: sign-up, console, tenants, namespaces, members and keys. It
sends the desired state to the nodes of the cell and is never on the path of a job:
while it is down, jobs keep flowing and only changes to tenants and keys wait.

Several can share a PostgreSQL. A SQLite file takes one.

With a key of Stripe in CORVO_STRIPE_KEY and the secret of its webhook in
CORVO_STRIPE_WEBHOOK_SECRET, tenants can pay for plans. CORVO_STRIPE_WEBHOOK_SECRET_OLD is
accepted too while the secret is being replaced.

It prints a line when it is ready. SIGTERM finishes running requests and exits.`,
		Example: `  (umask 077; head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' > control.key)
  corvo-cloud control --database postgres://corvo@db/corvo --public-url https://app.example.com \
    --tenant-url https://{tenant}.example.com --nodes http://10.0.0.1:7101,http://10.0.0.2:7101 \
    --cell-secret-file cell.secret --master-key-file control.key --smtp smtp://mail:587 --mail-from 'Corvo <no-reply@example.com>'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.control(c.Context(), f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8090", "`ADDRESS`; port 0 picks a free one")
	fs.StringVar(&f.Database, "database", "", databaseUsage)
	fs.StringVar(&f.PublicURL, "public-url", "", "`URL` of the console; that of the proxies if they forward to this process")
	fs.StringVar(&f.tenantURL, "tenant-url", "", "tenant `URL` pattern with {tenant} in it (default PUBLIC-URL/t/{tenant})")
	fs.StringVar(&f.nodes, "nodes", "", "API `URL,...` of the cell's nodes")
	fs.StringVar(&f.cellName, "cell-name", "cell-1", "`NAME` of the cell in the database")
	f.cell.add(c)
	fs.StringVar(&f.masterKeyFile, "master-key-file", "", "`FILE` with the key (64 hex digits) that encrypts secrets in the database; older keys follow, one per line")
	fs.StringVar(&f.Mail.URL, "smtp", "", "mail server, `HOST:PORT` or smtp(s)://[user:password@]host:port (env CORVO_SMTP)")
	fs.StringVar(&f.Mail.From, "mail-from", "", "sender `ADDRESS` of emails")
	fs.BoolVar(&f.AllowPrivateIssuers, "allow-private-issuers", false, "allow tenants' identity providers and audit sinks at private addresses")
	fs.StringVar(&f.DNS, "dns", "", dnsUsage)
	fs.StringVar(&f.Payments.URL, "stripe-url", "", stripeURLUsage)
	fs.StringVar(&f.proxies, "trusted-proxies", "", trustedProxiesUsage)
	fs.StringVar(&f.cert, "tls-cert", "", "certificate, PEM `FILE`; read again when it changes")
	fs.StringVar(&f.key, "tls-key", "", "private key of the certificate, PEM `FILE`")
	fs.DurationVar(&f.shutdownTimeout, "shutdown-timeout", 25*time.Second, "how long running requests can take after SIGTERM")
	fs.StringVar(&f.envFile, "env-file", "", "write CORVO_CONTROL_URL to `FILE` when ready")
	fs.BoolVar(&f.afterRestore, "after-restore", false, afterRestoreUsage)
	fs.BoolVar(&f.dryRun, "dry-run", false, "with --after-restore: change nothing, only list")
	fs.StringVarP(&s.output, "output", "o", outputText, "`FORMAT` of the list of --after-restore: text or json")
	c.AddCommand(s.plansCommand(), s.tenantsCommand(), s.setPlanCommand(), s.overrideCommand(), s.operatorsCommand(), s.reconciliationCommand(), s.deleteTenantCommand(), s.rotateTokenKeysCommand(), s.resealCommand(), s.stripeCommand())
	return c
}

func (s *session) control(ctx context.Context, f controlFlags) error {
	ignoreHangup()
	if err := forgetEnvFile(f.envFile); err != nil {
		return err
	}
	defer footprint.Manage(s.proc.Env, footprint.Alone)()
	cfg, err := s.controlConfig(&f)
	if err != nil {
		return err
	}
	tls, cert, err := publicTLS(f.cert, f.key)
	if err != nil {
		return err
	}
	if f.dryRun && !f.afterRestore {
		return errOnlyDryRun
	}
	if f.afterRestore {
		return s.afterRestore(ctx, cfg, f.dryRun)
	}
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return listenFailure("--listen", f.listen, err)
	}
	for _, c := range cfg.Cells {
		f.cell.follow(ctx, c.Secrets, s.logger())
	}
	followCertificate(ctx, cert, s.logger())
	control, err := server.New(ctx, cfg)
	if err != nil {
		return serverFailure("the control plane didn't start", errors.Join(err, listener.Close()))
	}
	front := newControlFront(control.Handler(), tls)
	err = s.serveControl(ctx, control, front, listener, f)
	return serverFailure("the control plane stopped", errors.Join(err, control.Close()))
}

// serveControl runs server and loops until ctx ends or one of them fails.
func (s *session) serveControl(ctx context.Context, control *server.Server, front *controlFront, listener net.Listener, f controlFlags) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	failed := make(chan error, 2)
	ran := make(chan struct{})
	go func() { failed <- control.Run(life); close(ran) }()                         // Ends with life.
	go func() { failed <- proxy.ServePublic(front.Server, listener, s.logger()) }() // Ends with Shutdown.
	url := hostURL(front.TLSConfig, listener.Addr().String())
	err := s.serving(ctx, "control plane "+url, f.envFile, "CORVO_CONTROL_URL", url, failed)
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.shutdownTimeout)
	defer cancel()
	err = errors.Join(err, front.end(shutdown))
	end()
	<-ran
	return err
}

func (s *session) controlConfig(f *controlFlags) (server.Config, error) {
	f.Database, f.Mail.URL = s.orEnv(f.Database, envDatabase), mailURL(s.orEnv(f.Mail.URL, envSMTP))
	f.Payments = s.payments(f.Payments.URL)
	switch {
	case f.Database == "":
		return server.Config{}, errNoDatabase
	case f.PublicURL == "":
		return server.Config{}, usagef("--public-url is required: links in emails start with it")
	case len(list(f.nodes)) == 0:
		return server.Config{}, usagef("--nodes is required")
	case f.Mail.URL == "" || f.Mail.From == "":
		return server.Config{}, usagef("--smtp and --mail-from are required: sign-up and sign-in use email")
	}
	f.tenantURL = cmp.Or(f.tenantURL, strings.TrimRight(f.PublicURL, "/")+"/t/{tenant}")
	if !strings.Contains(f.tenantURL, "{tenant}") {
		return server.Config{}, usagef("--tenant-url %q must contain {tenant}", f.tenantURL)
	}
	secrets, cellTLS, err := f.cell.load()
	if err != nil {
		return server.Config{}, err
	}
	if f.MasterKeys, err = readMasterKeys(f.masterKeyFile); err != nil {
		return server.Config{}, err
	}
	proxies, err := trustedProxies(f.proxies)
	if err != nil {
		return server.Config{}, err
	}
	f.TenantURL = func(tenant string) string { return strings.ReplaceAll(f.tenantURL, "{tenant}", tenant) }
	f.Cells = []server.Cell{{Name: f.cellName, URLs: list(f.nodes), Secrets: secrets, TLS: cellTLS}}
	f.Console, f.Peer, f.Version, f.Logger = web.Files(), proxies.Client, version(), s.logger()
	return f.Config, nil
}

// Variables for what may hold a password.
const (
	envDatabase = "CORVO_DATABASE"
	envSMTP     = "CORVO_SMTP"
)

// orEnv is a flag's value, or else a variable's.
func (s *session) orEnv(flag, name string) string { return cmp.Or(flag, s.proc.Env(name)) }

const dnsUsage = "DNS server, `HOST[:PORT]`, that is asked for the TXT records of tenants' domains (default the system's)"

const trustedProxiesUsage = "`ADDRESS,...` or prefixes of proxies in front whose X-Forwarded-For and X-Forwarded-Proto are believed (default none)"

// trustedProxies reads --trusted-proxies.
func trustedProxies(text string) (clientnet.Proxies, error) {
	proxies, err := clientnet.ParseProxies(list(text))
	if err != nil {
		return nil, usagef("--trusted-proxies: %s", err)
	}
	return proxies, nil
}

func readMasterKeys(path string) ([][]byte, error) {
	const howTo = "create one with: (umask 077; head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \\n' > control.key)"
	if path == "" {
		return nil, &Failure{Exit: ExitUsage, Code: "USAGE", What: "--master-key-file is required", Fix: howTo}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("--master-key-file: %v", err)
	}
	keys, err := server.ParseMasterKeys(text)
	if err != nil {
		return nil, &Failure{Exit: ExitUsage, Code: "USAGE", What: "--master-key-file: " + path + " must contain 64 hex digits per line", Why: err.Error(), Fix: howTo}
	}
	return keys, nil
}
