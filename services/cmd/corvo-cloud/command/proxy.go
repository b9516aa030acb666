package command

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/footprint"
	"github.com/corvo-cloud/corvo/services/datadir"
	"github.com/corvo-cloud/corvo/services/ingress"
	"github.com/corvo-cloud/corvo/services/proxy"
)

type proxyFlags struct {
	proxies         string
	listen          string
	domain          string
	nodes           string
	data            string
	control         string
	name            string
	cert, key       string
	cell            cellFlags
	shutdownTimeout time.Duration
	envFile         string
}

func (s *session) proxyCommand() *cobra.Command {
	var f proxyFlags
	c := &cobra.Command{
		Use:   "proxy",
		Short: "Run the proxy of a cell",
		Long: `Checks API keys in memory and forwards requests to the nodes. It learns tenants, keys
and nodes from the cell; --nodes are only the first ones it asks. With --data it keeps
what it knows across restarts, so that it can serve before a node answers.

With --control it is the only public port: everything that isn't for the data plane is
forwarded to the control plane, which serves the console and its API. While the control
plane is down, those requests get 503 and the data plane isn't affected.

It prints a line when it is ready. SIGTERM shuts down in order: streams are told to
reconnect and running requests are answered. A second signal stops at once.`,
		Example: `  corvo-cloud proxy --nodes http://127.0.0.1:7101,http://127.0.0.1:7102 --cell-secret-file cell.secret --data proxy`,
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return s.proxy(c.Context(), f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8080", "public `ADDRESS`; port 0 picks a free one")
	fs.StringVar(&f.domain, "domain", "localhost", "`DOMAIN` under which each tenant has a host")
	fs.StringVar(&f.nodes, "nodes", "", "API `URL,...` of at least one node")
	fs.StringVar(&f.data, "data", "", "`DIR` that keeps the cell's state across restarts")
	fs.StringVar(&f.control, "control", "", "forward everything that isn't for the data plane to the control plane at `URL`")
	fs.StringVar(&f.proxies, "trusted-proxies", "", trustedProxiesUsage)
	fs.StringVar(&f.name, "name", "1", "`NAME` of this proxy in logs")
	fs.StringVar(&f.cert, "tls-cert", "", "certificate of the public port, PEM `FILE`; read again when it changes")
	fs.StringVar(&f.key, "tls-key", "", "private key of the certificate, PEM `FILE`")
	f.cell.add(c)
	fs.DurationVar(&f.shutdownTimeout, "shutdown-timeout", 25*time.Second, "how long running requests can take after SIGTERM")
	fs.StringVar(&f.envFile, "env-file", "", "write CORVO_PROXY_URL to `FILE` when ready")
	return c
}

func (s *session) proxy(ctx context.Context, f proxyFlags) error {
	ignoreHangup()
	if err := forgetEnvFile(f.envFile); err != nil {
		return err
	}
	defer footprint.Manage(s.proc.Env, footprint.Alone)()
	if len(list(f.nodes)) == 0 {
		return usagef("--nodes is required")
	}
	secrets, cellTLS, err := f.cell.load()
	if err != nil {
		return err
	}
	f.cell.follow(ctx, secrets, s.logger())
	opts := proxy.Options{Domain: f.domain, Name: f.name, CellSecrets: secrets, CellTLS: cellTLS, Nodes: list(f.nodes), Logger: s.logger()}
	var cert *certificate
	if opts.TLS, cert, err = publicTLS(f.cert, f.key); err != nil {
		return err
	}
	followCertificate(ctx, cert, opts.Logger)
	if opts.Proxies, err = trustedProxies(f.proxies); err != nil {
		return err
	}
	if f.control != "" {
		carrier, err := ingress.NewCarrier(f.control, ingress.CarrierOptions{Logger: opts.Logger})
		if err != nil {
			return usagef("--control: %v", err)
		}
		defer carrier.Close()
		opts.Front = func(data http.Handler) http.Handler {
			return ingress.New(data, ingress.Options{Domain: f.domain, Control: carrier, Proxies: opts.Proxies})
		}
	}
	if f.data == "" {
		return serverFailure("the proxy stopped", s.runProxy(ctx, opts, f))
	}
	dir, err := datadir.Claim(f.data, "proxy")
	if err != nil {
		return serverFailure("the proxy didn't start", err)
	}
	opts.DataDir = dir.Join("state")
	return serverFailure("the proxy stopped", errors.Join(s.runProxy(ctx, opts, f), dir.Release()))
}

func (s *session) runProxy(ctx context.Context, opts proxy.Options, f proxyFlags) (err error) {
	listener, err := net.Listen("tcp", f.listen)
	if err != nil {
		return listenFailure("--listen", f.listen, err)
	}
	p, err := proxy.New(opts)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(listener) }() // Ends with Shutdown.
	defer func() {
		shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.shutdownTimeout)
		defer cancel()
		err = errors.Join(err, p.Shutdown(shutdown))
	}()
	return s.superviseProxy(ctx, p, served, hostURL(opts.TLS, listener.Addr().String()), f.envFile)
}

const proxyReadyPoll = 10 * time.Millisecond

// superviseProxy says when the proxy is ready and returns when it shall end.
func (s *session) superviseProxy(ctx context.Context, p *proxy.Proxy, served <-chan error, url, envFile string) error {
	tick := time.NewTicker(proxyReadyPoll)
	defer tick.Stop()
	for !p.Ready() {
		select {
		case <-tick.C:
		case err := <-served:
			return err
		case <-ctx.Done():
			return nil
		}
	}
	return s.serving(ctx, "proxy "+url, envFile, "CORVO_PROXY_URL", url, served)
}
