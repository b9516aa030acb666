package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"corvo": func() { os.Exit(Main(context.Background(), os.Args[1:], OS())) },
	})
}

// TestScripts runs testdata/script: command lines in, output and exit codes out.
// Every script has a node of its own at $CORVO_URL; those whose name begins with
// "key" have one that asks for keys, and the first key's file at $KEY_FILE.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"first": firstLine,
			"field": field,
			"await": await,
			// await-in waits until a folder has something in it.
			"await-in": awaitIn,
			"load":     load,
		},
		Setup: func(env *testscript.Env) error {
			f := serverFlags{bind: "127.0.0.1:0", dataDir: filepath.Join(env.WorkDir, "node"), nodeID: "node-1", raftShards: 1,
				shutdownTimeout: 5 * time.Second, maxPayloadSize: 4096, requireKey: strings.HasPrefix(filepath.Base(env.WorkDir), "script-key")}
			url, keyFile, stop, err := startNode(f)
			if err != nil {
				return err
			}
			env.Defer(stop)
			env.Setenv("CORVO_URL", url)
			env.Setenv("CORVO_API_KEY", "")
			env.Setenv("KEY_FILE", keyFile)
			return nil
		},
	})
}

// startNode runs what `corvo server` runs.
func startNode(f serverFlags) (url, keyFile string, stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	type place struct{ url, keyFile string }
	ready := make(chan place, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- runServer(ctx, f, slog.New(slog.DiscardHandler), serverEvents{ready: func(url, _, keyFile string) error {
			ready <- place{url, keyFile}
			return nil
		}})
	}()
	stop = func() { cancel(); <-ended }
	select {
	case p := <-ready:
		return p.url, p.keyFile, stop, nil
	case err := <-ended:
		cancel()
		return "", "", nil, err
	}
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

// field puts a member of the JSON object on the last stdout into a variable:
// field TOKEN lease_token
func field(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: field VARIABLE NAME")
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &members); err != nil {
		ts.Fatalf("stdout is not one JSON object: %v", err)
	}
	value, ok := members[args[1]]
	if !ok {
		ts.Fatalf("stdout has no member %q", args[1])
	}
	ts.Setenv(args[0], fmt.Sprint(value))
}

// load sets the variables of an env file: load FILE
func load(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: load FILE")
	}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		ts.Setenv(name, value)
	}
}

// await waits until a file exists: await FILE
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	poll(ts, args[0]+" did not appear", func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	})
}

func awaitIn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await-in FOLDER")
	}
	poll(ts, "nothing appeared in "+args[0], func() bool {
		entries, err := os.ReadDir(ts.MkAbs(args[0]))
		return err == nil && len(entries) > 0
	})
}

func poll(ts *testscript.TestScript, failure string, done func() bool) {
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("%s", failure)
		}
	}
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
		"enqueue": "job enqueue", "enqueue-batch": "job enqueue-batch", "inspect": "job get", "why": "job why", "retry": "job retry", "cancel": "job cancel",
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
