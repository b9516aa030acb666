package cli

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/internal/bench/standin"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"corvo": func() { os.Exit(Main(context.Background(), os.Args[1:], OS())) },
	})
}

// TestScripts runs testdata/script: command lines in, output and exit codes out.
// Every script has a server of its own at $CORVO_URL.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"first": firstLine,
			"await": await,
		},
		Setup: func(env *testscript.Env) error {
			queue := standin.New(standin.Faults{Overloads: 1})
			if strings.HasPrefix(filepath.Base(env.WorkDir), "script-auth") {
				queue.Key = "corvo_dp_test"
			}
			url, stop, err := listen(queue.NewServer())
			if err != nil {
				return err
			}
			env.Defer(stop)
			env.Setenv("CORVO_URL", url)
			env.Setenv("CORVO_API_KEY", "")
			return nil
		},
	})
}

func listen(server *http.Server) (url string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return "http://" + listener.Addr().String(), func() { _ = server.Close(); <-done }, nil
}

// exits runs a command and demands an exit code: exits 3 corvo inspect job_x
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("%s exited %s, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// firstLine puts the first line of the last stdout into a variable: first JOB
func firstLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: first VARIABLE")
	}
	line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	ts.Setenv(args[0], line)
}

// await waits until a file exists: await FILE
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
	}
	ts.Fatalf("%s did not appear", args[0])
}

func TestTree_EveryCommandHasExamplesAndCompleteHelp(t *testing.T) {
	t.Parallel()
	walk(newSession(OS()).rootCommand(), func(c *cobra.Command) {
		if c.Name() == "help" || c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion" {
			return
		}
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: the short help %q is a phrase without a stop", c.CommandPath(), c.Short)
		}
		if !c.HasSubCommands() && c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if strings.Contains(c.Example+c.Long, "{cmd}") {
			t.Errorf("%s: an example names no command", c.CommandPath())
		}
	})
}

// TestTree_NounFormsTakeTheSameFlags: the two forms of a verb are one
// implementation, so they cannot drift apart in their flags.
func TestTree_NounFormsTakeTheSameFlags(t *testing.T) {
	t.Parallel()
	root := newSession(OS()).rootCommand()
	for short, noun := range map[string]string{
		"enqueue": "job enqueue", "enqueue-batch": "job enqueue-batch", "inspect": "job get", "retry": "job retry", "cancel": "job cancel",
		"delete": "job delete", "fetch": "job fetch", "ack": "job ack", "fail": "job fail", "heartbeat": "job heartbeat",
		"queues": "queue list", "pause": "queue pause", "resume": "queue resume", "work": "worker run", "status": "cluster status",
	} {
		a, _, aerr := root.Find([]string{short})
		b, _, berr := root.Find(strings.Fields(noun))
		if aerr != nil || berr != nil || a.Name() != short || b.CommandPath() != "corvo "+noun {
			t.Errorf("%s or %s does not exist", short, noun)
			continue
		}
		if a.LocalFlags().FlagUsages() != b.LocalFlags().FlagUsages() || a.Short != b.Short {
			t.Errorf("%s and %s differ", short, noun)
		}
	}
}
