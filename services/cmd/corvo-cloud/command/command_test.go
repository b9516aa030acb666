package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/control-plane/server"
	"github.com/corvo-cloud/corvo/data-plane/node"
)

// run is one invocation that must not start anything.
func run(t *testing.T, args ...string) (stdout, stderr string, exit int) {
	t.Helper()
	var out, talk bytes.Buffer
	exit = Main(t.Context(), args, Process{Stdout: &out, Stderr: &talk, Env: func(string) string { return "" }})
	return out.String(), talk.String(), exit
}

func TestFlags_ARefusalNamesTheFlag(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	short, good := filepath.Join(dir, "short"), filepath.Join(dir, "good")
	for path, text := range map[string]string{short: "hunter2\n", good: "sixteen characters or more\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const peers = "n1=127.0.0.1:1/http://127.0.0.1:2,n2=127.0.0.1:3/http://127.0.0.1:4"
	nodeWith := func(args ...string) []string {
		return append([]string{"node", "--id", "n1", "--data", filepath.Join(dir, "never")}, args...)
	}
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"unknown command":           {[]string{"down"}, "unknown command"},
		"unknown flag":              {[]string{"up", "--port", "1"}, "--port"},
		"log level":                 {[]string{"up", "--log-level", "loud"}, "--log-level"},
		"even number of nodes":      {[]string{"up", "--nodes", "2"}, "--nodes 2"},
		"test payments in public":   {[]string{"up", "--data", filepath.Join(dir, "never"), "--listen", "0.0.0.0:0", "--mailbox", "--test-payments"}, "--test-payments only works for this machine"},
		"test payments and Stripe":  {[]string{"up", "--data", filepath.Join(dir, "never"), "--listen", "127.0.0.1:0", "--test-payments", "--stripe-url", "http://127.0.0.1:1"}, "not both"},
		"no shards":                 {[]string{"up", "--shards", "0"}, "--shards"},
		"node without id":           {[]string{"node", "--data", dir}, "--id"},
		"node forms and joins":      {nodeWith("--peers", peers, "--join", "http://127.0.0.1:2"), "--join"},
		"node is not a peer":        {nodeWith("--id", "n9", "--peers", peers), "n9"},
		"peer without a url":        {nodeWith("--peers", "n1=127.0.0.1:1"), "n1=127.0.0.1:1"},
		"node without a secret":     {nodeWith("--peers", peers), "--cell-secret-file"},
		"short secret":              {nodeWith("--peers", peers, "--cell-secret-file", short), "at least 16"},
		"secret is not there":       {nodeWith("--peers", peers, "--cell-secret-file", dir+"/no"), "no such file"},
		"half of TLS":               {nodeWith("--peers", peers, "--cell-secret-file", good, "--cell-tls"), "--cell-cert"},
		"certificates without TLS":  {nodeWith("--peers", peers, "--cell-secret-file", good, "--cell-ca", good), "--cell-tls"},
		"proxy without nodes":       {[]string{"proxy", "--cell-secret-file", good}, "--nodes"},
		"proxy carries to no URL":   {[]string{"proxy", "--cell-secret-file", good, "--nodes", "http://127.0.0.1:1", "--control", "127.0.0.1:8090"}, "--control"},
		"cell without nodes":        {[]string{"cell", "status", "--cell-secret-file", good}, "--nodes"},
		"cell node without scheme":  {[]string{"cell", "status", "--cell-secret-file", good, "--nodes", "127.0.0.1:7101"}, "127.0.0.1:7101"},
		"cell output":               {[]string{"cell", "status", "--output", "xml"}, "--output"},
		"tenant without a name":     {[]string{"cell", "tenant", "create"}, "arg"},
		"namespace without tenant":  {[]string{"cell", "namespace", "create", "a"}, "--tenant"},
		"namespace set, no tenant":  {[]string{"cell", "namespace", "set", "a", "--retention-dead", "1d"}, "--tenant"},
		"namespace set, no change":  {[]string{"cell", "namespace", "set", "a", "--tenant", "b"}, "say what to change"},
		"namespace has no weight":   {[]string{"cell", "namespace", "set", "a", "--tenant", "b", "--weight", "2"}, "--weight"},
		"set-plan, no database":     {[]string{"control", "set-plan", "acme", "free"}, "--database is required"},
		"tenants, no database":      {[]string{"control", "tenants"}, "--database is required"},
		"delete-tenant, unsure":     {[]string{"control", "delete-tenant", "acme", "--database", "sqlite:x"}, "repeat the tenant's name with --confirm acme"},
		"delete-tenant, other":      {[]string{"control", "delete-tenant", "acme", "--confirm", "acne", "--database", "sqlite:x"}, "--confirm acme"},
		"delete-tenant, nowhere":    {[]string{"control", "delete-tenant", "acme", "--confirm", "acme"}, "--database is required"},
		"plans, no database":        {[]string{"control", "plans", "list"}, "--database is required"},
		"override of no number":     {[]string{"control", "override", "set", "acme", "keys_max", "many", "--database", "sqlite:x"}, "isn't a whole number or unlimited"},
		"override ends never":       {[]string{"control", "override", "set", "acme", "keys_max", "1", "--ends", "soon", "--database", "sqlite:x"}, "--ends"},
		"plan file isn't there":     {[]string{"control", "plans", "apply", "/no/file", "--database", "sqlite:x"}, "no such file"},
		"tenant set, no change":     {[]string{"cell", "tenant", "set", "a"}, "say what to change"},
		"tenant set, too short":     {[]string{"cell", "tenant", "set", "a", "--retention-limit-dead", "1s"}, "--retention-limit-dead"},
		"namespaces of no tenant":   {[]string{"cell", "namespace", "list"}, "--tenant"},
		"key of an impossible kind": {[]string{"cell", "key", "create", "--tenant", "a", "--kind", "pat", "--nodes", "http://127.0.0.1:1", "--cell-secret-file", good}, "--kind"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, talk, exit := run(t, tc.args...)
			if exit != ExitUsage || !strings.Contains(talk, tc.says) || out != "" {
				t.Errorf("exit %d, want %d and %q; stdout %q, stderr:\n%s", exit, ExitUsage, tc.says, out, talk)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "never")); err == nil {
		t.Error("a refused node made its data directory")
	}
}

// Whoever may list processes reads their command lines.
func TestControl_TakesWhatHoldsAPasswordFromVariablesToo(t *testing.T) {
	t.Parallel()
	env := map[string]string{envDatabase: "postgres://corvo:secret@db/corvo", envSMTP: "smtp://u:secret@mail"}
	s := &session{proc: Process{Env: func(name string) string { return env[name] }}}
	for flag, want := range map[string]string{"": env[envSMTP], "other:25": "other:25"} {
		if got := s.orEnv(flag, envSMTP); got != want {
			t.Errorf("--smtp %q: %q, want %q", flag, got, want)
		}
	}
	_, err := s.controlConfig(&controlFlags{Config: server.Config{PublicURL: "http://localhost", Mail: server.Mail{From: "a@b.test"}}, nodes: "http://127.0.0.1:1"})
	if err == nil || !strings.Contains(toFailure(err).What, "--cell-secret-file") || strings.Contains(toFailure(err).What, "secret@") {
		t.Errorf("with both variables: %v", err)
	}
}

func TestFailure_IsJSONWhereTheOutputIs(t *testing.T) {
	t.Parallel()
	_, talk, exit := run(t, "cell", "status", "--output", "json")
	if exit != ExitUsage || !strings.HasPrefix(talk, `{"code":"USAGE"`) {
		t.Errorf("exit %d: %s", exit, talk)
	}
}

// The first file that a start reads is not a node's own.
func TestServerFailure_ABadDiskIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("data directory d: %w", &fs.PathError{Op: "read", Path: "d/VERSION", Err: syscall.EIO})
	var f *Failure
	if !errors.As(serverFailure("the node didn't start", err), &f) || f.Exit != ExitStopped || f.Code != "STORAGE" {
		t.Errorf("%+v", f)
	}
}

// An operator whose own clock is wrong is told so, and not to look at the nodes.
func TestCellFailure_AWrongClockIsNamed(t *testing.T) {
	t.Parallel()
	refused := connect.NewError(connect.CodeUnavailable, errors.New("the caller's clock and this node's differ by more than 30s"))
	refused.Meta().Set("Corvo-Reason", "CLOCK_SKEW")
	f := toFailure(cellFailure(fmt.Errorf("every node must answer: %w", refused)))
	if f.Exit != ExitConflict || f.Code != "CLOCK_SKEW" || !strings.Contains(f.Fix, "clock") {
		t.Errorf("exit %d, code %s, fix %q", f.Exit, f.Code, f.Fix)
	}
}

func TestPeers_AreReadAsWritten(t *testing.T) {
	t.Parallel()
	got, err := parsePeers("n1=127.0.0.1:7001/http://127.0.0.1:7101, n2=[::1]:7002/https://node-2.example:443")
	want := []node.Peer{
		{ID: "n1", RaftAddress: "127.0.0.1:7001", APIURL: "http://127.0.0.1:7101"},
		{ID: "n2", RaftAddress: "[::1]:7002", APIURL: "https://node-2.example:443"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []string{"n1", "n1=127.0.0.1:7001", "=127.0.0.1:1/http://a", "n1=nowhere/http://a", "n1=127.0.0.1:1/a",
		"n1=127.0.0.1:1/http://a,n1=127.0.0.1:2/http://b"} {
		if got, err := parsePeers(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}

func FuzzParsePeers(f *testing.F) {
	f.Add("n1=127.0.0.1:7001/http://127.0.0.1:7101,n2=[::1]:1/https://a")
	f.Fuzz(func(t *testing.T, text string) {
		peers, err := parsePeers(text)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, p := range peers {
			if p.ID == "" || p.RaftAddress == "" || !strings.HasPrefix(p.APIURL, "http") || seen[p.ID] {
				t.Errorf("%q was read as %+v", text, peers)
			}
			seen[p.ID] = true
		}
	})
}

// Not parallel: the limit is the process's.
func TestServers_LimitTheirMemoryUnlessTheEnvironmentDoes(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(was)
	// Refused for another reason, so that nothing starts.
	for _, args := range [][]string{{"up", "--nodes", "2"}, {"node"}, {"proxy"}, {"control"}, {"mailbox", "--listen", "nowhere"}} {
		for _, env := range []string{"", "1GiB"} {
			debug.SetMemoryLimit(math.MaxInt64)
			exit := Main(t.Context(), args, Process{Stdout: io.Discard, Stderr: io.Discard, Env: func(name string) string {
				if name == "GOMEMLIMIT" {
					return env
				}
				return ""
			}})
			if exit == 0 {
				t.Fatalf("%v was not refused", args)
			}
			if limited := debug.SetMemoryLimit(-1) < math.MaxInt64; limited != (env == "") {
				t.Errorf("%v with GOMEMLIMIT=%q: limited: %v", args, env, limited)
			}
		}
	}
}

func TestCell_AWrongAddressIsFoundSoon(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("sixteen characters or more"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Nothing listens on a port whose listener was closed.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	_, talk, exit := run(t, "cell", "status", "--nodes", "http://"+l.Addr().String(), "--cell-secret-file", secret)
	if exit != ExitTimeout || !strings.Contains(talk, "--nodes") || time.Since(from) > 15*time.Second {
		t.Errorf("exit %d after %s: %s", exit, time.Since(from), talk)
	}
}

// Whoever waits for the file must not find that of an earlier run, not even if this one fails.
func TestEnvFile_ThatOfAnEarlierRunIsGone(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"up", "control", "node", "proxy", "mailbox"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "env")
			if err := os.WriteFile(file, []byte("CORVO_URL=http://127.0.0.1:1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			args := []string{command, "--env-file", file}
			switch command {
			case "up", "mailbox": // The others lack something that they need.
				args = append(args, "--listen", "256.0.0.1:0")
			}
			if command == "mailbox" {
				args = append(args, "--smtp", "127.0.0.1:0")
			}
			if _, stderr, exit := run(t, args...); exit == ExitOK {
				t.Errorf("it served: %s", stderr)
			}
			if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file of an earlier run is still there: %v", err)
			}
		})
	}
}
