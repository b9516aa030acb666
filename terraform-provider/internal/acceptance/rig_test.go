package acceptance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-testing/echoprovider"

	"github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1/cloudv1connect"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/provider"
)

// binaryVariable names a corvo-cloud that was built already.
const binaryVariable = "CORVO_E2E_CLOUD"

const (
	startMax = 60 * time.Second
	stopMax  = 20 * time.Second
)

// lab is what the tests share: the binaries, and one service for all tests that do not
// break theirs.
type lab struct {
	dir       string
	terraform string
	binary    string // corvo-cloud.
	build     func() error
	start     func() (*service, error)
	shared    *service
	dns       *zone // Whose records the services see.
}

var theLab *lab // Set by TestMain before any test runs.

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "corvo-terraform-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	theLab = newLab(dir)
	if theLab.dns, err = newZone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if theLab.shared != nil {
		err = theLab.shared.stop(syscall.SIGTERM)
	}
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		return 1
	}
	return code
}

func newLab(dir string) *lab {
	l := &lab{dir: dir}
	l.terraform, _ = exec.LookPath("terraform") // Empty if there is none; the tests say so.
	for name, value := range map[string]string{
		"TF_ACC": "1", "TF_ACC_TERRAFORM_PATH": l.terraform, "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TF_CLI_CONFIG_FILE": os.DevNull,
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err) // Only a name with = or NUL in it.
		}
	}
	l.binary = os.Getenv(binaryVariable)
	l.build = sync.OnceValue(func() error {
		err := goBuild("../..", l.path("plugin/terraform-provider-corvo"), ".")
		if l.binary == "" {
			l.binary = l.path("corvo-cloud")
			err = errors.Join(err, goBuild("../../../services", l.binary, "./cmd/corvo-cloud"))
		}
		return err
	})
	l.start = sync.OnceValues(func() (*service, error) {
		s := newService(l.binary, l.path("shared"), "127.0.0.1:0")
		l.shared = s
		return s, s.start()
	})
	return l
}

func (l *lab) path(name string) string { return filepath.Join(l.dir, name) }

func goBuild(dir, out, pkg string) error {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", out, pkg)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// need skips a test on a machine without Terraform, and when tests are to be short.
func need(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs Terraform and a whole service")
	}
	if theLab.terraform == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("there is no terraform in PATH; install Terraform 1.11 or newer")
		}
		t.Skip("there is no terraform in PATH; install Terraform 1.11 or newer to run this test")
	}
	if err := theLab.build(); err != nil {
		t.Fatal(err)
	}
}

// cloud is the shared service.
func cloud(t *testing.T) *service {
	t.Helper()
	need(t)
	s, err := theLab.start()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ownCloud is a service that the test may kill; it comes back at the same address.
func ownCloud(t *testing.T) *service {
	t.Helper()
	need(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := newService(theLab.binary, t.TempDir(), addr)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	})
	return s
}

// service is a corvo-cloud up in a process of its own.
type service struct {
	binary, dir, listen string

	mu   sync.Mutex // Guards what follows: a killer may run beside the test.
	cmd  *exec.Cmd
	done chan struct{} // Closed by the goroutine that waits for the process.

	env map[string]string // Written by start only.
}

func newService(binary, dir, listen string) *service {
	return &service{binary: binary, dir: dir, listen: listen}
}

func (s *service) start() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	envFile := filepath.Join(s.dir, "env")
	if err := os.RemoveAll(envFile); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(s.binary, "up", "--dns", theLab.dns.address, "--listen", s.listen, "--data", filepath.Join(s.dir, "data"), "--env-file", envFile, "--nodes", "1")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
	if err := errors.Join(cmd.Start(), log.Close()); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() { // Ends with the process, which stop stops.
		_ = cmd.Wait() // How it ended is the test's doing.
		close(done)
	}()
	s.mu.Lock()
	s.cmd, s.done = cmd, done
	s.mu.Unlock()
	s.env, err = awaitEnv(envFile, done)
	if err != nil {
		text, _ := os.ReadFile(log.Name()) // Best effort: only for the message.
		return fmt.Errorf("corvo-cloud up: %w\n%s", err, text)
	}
	return nil
}

func awaitEnv(file string, done <-chan struct{}) (map[string]string, error) {
	deadline := time.Now().Add(startMax)
	for time.Now().Before(deadline) {
		if env, err := readEnv(file); err == nil {
			return env, nil
		}
		select {
		case <-done:
			return nil, errors.New("ended while starting")
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil, fmt.Errorf("not ready after %s", startMax)
}

func readEnv(file string) (env map[string]string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	env = map[string]string{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if name, value, ok := strings.Cut(sc.Text(), "="); ok {
			env[name] = strings.Trim(value, `'"`)
		}
	}
	if env["CORVO_TOKEN"] == "" || env["CORVO_ENDPOINT"] == "" {
		return nil, errors.New("no token")
	}
	return env, nil
}

// stop ends the process by a signal and waits for it. Twice is the same as once.
func (s *service) stop(sig syscall.Signal) error {
	s.mu.Lock()
	cmd, done := s.cmd, s.done
	s.mu.Unlock()
	if cmd == nil || cmd.Process == nil {
		return nil
	}
	if err := cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-done:
		return nil
	case <-time.After(stopMax):
		return errors.Join(fmt.Errorf("corvo-cloud did not end within %s", stopMax), cmd.Process.Kill())
	}
}

func (s *service) endpoint() string { return s.env["CORVO_ENDPOINT"] }
func (s *service) token() string    { return s.env["CORVO_TOKEN"] }
func (s *service) url() string      { return s.env["CORVO_URL"] }

// other is another user of the same tenant.
type other struct {
	namespaces  cloudv1connect.NamespaceServiceClient
	keys        cloudv1connect.ApiKeyServiceClient
	auth        cloudv1connect.AuthServiceClient
	roles       cloudv1connect.RoleServiceClient
	accounts    cloudv1connect.ServiceAccountServiceClient
	groups      cloudv1connect.GroupServiceClient
	domains     cloudv1connect.DomainServiceClient
	connections cloudv1connect.SsoServiceClient
	members     cloudv1connect.MemberServiceClient
	policy      cloudv1connect.PolicyServiceClient
	trusts      cloudv1connect.TrustServiceClient
	audit       cloudv1connect.AuditServiceClient
	directory   cloudv1connect.DirectoryServiceClient
	usage       cloudv1connect.UsageServiceClient
	url, token  string
}

func (s *service) other() other {
	as := connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
			r.Header().Set("Authorization", "Bearer "+s.token())
			return next(ctx, r)
		}
	}))
	return other{
		namespaces:  cloudv1connect.NewNamespaceServiceClient(http.DefaultClient, s.endpoint(), as),
		keys:        cloudv1connect.NewApiKeyServiceClient(http.DefaultClient, s.endpoint(), as),
		auth:        cloudv1connect.NewAuthServiceClient(http.DefaultClient, s.endpoint(), as),
		roles:       cloudv1connect.NewRoleServiceClient(http.DefaultClient, s.endpoint(), as),
		accounts:    cloudv1connect.NewServiceAccountServiceClient(http.DefaultClient, s.endpoint(), as),
		groups:      cloudv1connect.NewGroupServiceClient(http.DefaultClient, s.endpoint(), as),
		domains:     cloudv1connect.NewDomainServiceClient(http.DefaultClient, s.endpoint(), as),
		connections: cloudv1connect.NewSsoServiceClient(http.DefaultClient, s.endpoint(), as),
		policy:      cloudv1connect.NewPolicyServiceClient(http.DefaultClient, s.endpoint(), as),
		members:     cloudv1connect.NewMemberServiceClient(http.DefaultClient, s.endpoint(), as),
		trusts:      cloudv1connect.NewTrustServiceClient(http.DefaultClient, s.endpoint(), as),
		audit:       cloudv1connect.NewAuditServiceClient(http.DefaultClient, s.endpoint(), as),
		directory:   cloudv1connect.NewDirectoryServiceClient(http.DefaultClient, s.endpoint(), as),
		usage:       cloudv1connect.NewUsageServiceClient(http.DefaultClient, s.endpoint(), as),
		url:         s.url(), token: s.token(),
	}
}

// factories run the provider inside the test, so that the race detector and coverage see it.
func factories() map[string]func() (tfprotov6.ProviderServer, error) {
	return map[string]func() (tfprotov6.ProviderServer, error){
		"corvo": providerserver.NewProtocol6WithError(provider.New("test")()),
		"echo":  echoprovider.NewProviderServer(),
	}
}

// block is the provider block for a service, or for a proxy in front of it.
func block(s *service, endpoint string, more ...string) string {
	if endpoint == "" {
		endpoint = s.endpoint()
	}
	return fmt.Sprintf("provider \"corvo\" {\n  endpoint = %q\n  token = %q\n  %s\n}\n", endpoint, s.token(), strings.Join(more, "\n  "))
}

// name is unique for a test.
func name(t *testing.T, prefix string) string {
	t.Helper()
	return fmt.Sprintf("%s-%08x", prefix, time.Now().UnixNano()&0xffffffff)
}

// anybody has no token.
func (s *service) anybody() cloudv1connect.MemberServiceClient {
	return cloudv1connect.NewMemberServiceClient(http.DefaultClient, s.endpoint())
}
