package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/services/up"
	"github.com/corvo-cloud/corvo/web"
)

// upMemory is how much of the memory `up` may fill: it shares a laptop.
const upMemory = 0.5

type upFlags struct {
	proxies   string
	data      string
	listen    string
	domain    string
	nodes     int
	shards    int
	envFile   string
	syncDelay time.Duration
	heartbeat time.Duration
	database  string
	smtp      string
}

func (s *session) upCommand() *cobra.Command {
	var f upFlags
	c := &cobra.Command{
		Use:   "up",
		Short: "Run the whole service in one process: control plane, console, three nodes and a proxy",
		Long: `Starts a control plane with its console, three nodes with raft between them and a
proxy in front, over the same transports as separate processes, and makes the tenant
"demo" with its keys. The keys lie in a file under --data that only its owner can read,
and stay the same. A sign-in link for the console is printed; it works once.

Mails, such as those of sign-up, are kept in this process and shown at /mail, unless
--smtp names a mail server. The control plane's database is SQLite under --data, unless
--database names a PostgreSQL.

--env-file is written when a job can go in: CORVO_URL (the tenant's URL) and
CORVO_API_KEY for jobs, CORVO_ENDPOINT and CORVO_TOKEN for Terraform and the control
API, CORVO_CONSOLE_URL with the sign-in link.

Ctrl-C ends everything within three seconds, a second one at once. Nothing that was
acknowledged is lost either way.`,
		Example: `  corvo-cloud up
  corvo-cloud up --listen 127.0.0.1:0 --env-file .run/env && . .run/env`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return s.up(c.Context(), f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.data, "data", ".run/up", "`DIR` of all data")
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8080", "public `ADDRESS`; port 0 takes a free one")
	fs.StringVar(&f.proxies, "trusted-proxies", "", trustedProxiesUsage)
	fs.StringVar(&f.domain, "domain", "localhost", "tenants are also hosts under this `DOMAIN`")
	fs.IntVar(&f.nodes, "nodes", 3, "how many nodes: 1, 3 or 5; may not change once there is data")
	fs.IntVar(&f.shards, "shards", 2, "raft groups for jobs; may not change once there is data")
	fs.StringVar(&f.database, "database", "", "control plane's database `URL`: postgres://…; default SQLite under --data (env CORVO_DATABASE)")
	fs.StringVar(&f.smtp, "smtp", "", "mail server, `HOST:PORT` or smtp(s)://[user:password@]host:port; default the mailbox at /mail (env CORVO_SMTP)")
	fs.StringVar(&f.envFile, "env-file", "", "write variables for a shell to `FILE` when ready")
	fs.DurationVar(&f.syncDelay, "sync-delay", 0, "development: make every sync of the logs this much slower, like a real disk")
	fs.DurationVar(&f.heartbeat, "heartbeat", 0, "raft heartbeat and election timeout; 0 takes the default")
	return c
}

func (s *session) up(ctx context.Context, f upFlags) error {
	if f.nodes != 1 && f.nodes != 3 && f.nodes != 5 {
		return usagef("--nodes %d: use 1, 3 or 5", f.nodes)
	}
	if f.shards < 1 || f.syncDelay < 0 || f.heartbeat < 0 {
		return usagef("--shards must be at least 1, --sync-delay and --heartbeat not negative")
	}
	ctx, stop := untilSignal(ctx)
	defer stop()
	defer s.hushAtEnd(ctx)()
	s.limitMemory(upMemory)
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return listenFailure("--listen", f.listen, err)
	}
	fmt.Fprintf(s.proc.Stderr, "starting control plane, %d nodes and a proxy, data in %s ...\n", f.nodes, f.data)
	trusted, err := trustedProxies(f.proxies)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	service, err := up.New(up.Config{
		Proxies: trusted,
		Dir:     f.data, Listener: listener, Domain: f.domain, Nodes: f.nodes, Shards: f.shards,
		SyncDelay: f.syncDelay, Heartbeat: f.heartbeat, Version: version(), Logger: s.logger(),
		Database: s.orEnv(f.database, envDatabase), MailURL: mailURL(s.orEnv(f.smtp, envSMTP)), Console: web.Files(),
	})
	if err != nil {
		return serverFailure("the service did not start", err)
	}
	return serverFailure("the service stopped", s.runUp(ctx, service, f.envFile))
}

func (s *session) runUp(ctx context.Context, service *up.Service, envFile string) error {
	if err := forgetEnvFile(envFile); err != nil {
		return errors.Join(err, service.Close())
	}
	return service.Run(ctx, func(i up.Info) error {
		greet(s.proc.Stdout, i)
		return writeEnvFile(envFile, [][2]string{
			{"CORVO_URL", i.TenantURL}, {"CORVO_API_KEY", i.APIKey},
			{"CORVO_ENDPOINT", i.BaseURL}, {"CORVO_TOKEN", i.Token}, {"CORVO_CONSOLE_URL", i.SignInURL},
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

// greet prints what a newcomer needs. The three commands are run by a test as they
// are printed.
func greet(w io.Writer, i up.Info) {
	fmt.Fprintf(w, `
Corvo Cloud is ready: control plane, %[4]d nodes and a proxy.

  console      %[6]s   (signs you in as %[10]s, once)
  sign-up      %[7]s/signup%[8]s
  tenant URL   %[1]s
  API key      %[2]s   (kept in %[3]s)

Put a job into a queue, take it out as a worker would, and finish it:

  curl -sS %[1]s/api/v1/enqueue -H 'X-API-Key: %[2]s' -d '{"queue":"hello","payload":{"name":"Ada"}}'
  JOB=$(curl -sS %[1]s/api/v1/fetch -H 'X-API-Key: %[2]s' -d '{"queues":["hello"],"worker_id":"me"}'); echo "$JOB"
  curl -sS %[1]s/api/v1/ack/$(echo "$JOB" | sed -E 's/.*"job_id": *"([^"]+)".*/\1/') -H 'X-API-Key: %[2]s' -d '{"result":{"said":"hello Ada"}}'

The same with the command line, and with a worker in Go (from the repository):

  CORVO_URL=%[1]s CORVO_API_KEY=%[2]s %[5]s enqueue hello '{"name":"Ada"}'
  CORVO_URL=%[1]s CORVO_API_KEY=%[2]s go run ./sdks/go/examples/hello

Terraform and the control API, with the token in the same file:

  CORVO_ENDPOINT=%[7]s CORVO_TOKEN=%[9]s

Ctrl-C stops it; the jobs stay.
`, i.TenantURL, i.APIKey, i.CredentialsFile, i.Nodes, corvoBinary(), i.SignInURL, i.BaseURL, mailHint(i), i.Token, i.Email)
}

func mailHint(i up.Info) string {
	if i.MailURL == "" {
		return ""
	}
	return "   (its mail is at " + i.MailURL + ")"
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
