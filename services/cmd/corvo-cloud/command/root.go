package command

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Process is the surroundings of one invocation.
type Process struct {
	Stdout, Stderr io.Writer
	Env            func(string) string
}

// OS is the Process of the running program.
func OS() Process { return Process{Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv} }

// Main runs one invocation and returns its exit code. Every command ends in order with the
// first SIGINT or SIGTERM; a second one ends the process at once, as it does by default.
func Main(ctx context.Context, args []string, p Process) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	s := &session{proc: p}
	root := s.rootCommand()
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		f := toFailure(err)
		s.report(f)
		return f.Exit
	}
	return ExitOK
}

// session is one invocation: the global flags and where to print.
type session struct {
	proc     Process
	logLevel string
	level    slog.LevelVar
	output   string
}

func (s *session) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "corvo-cloud",
		Short: "Run the job queue as a service",
		Long: `Three nodes keep every job on disk, and a proxy in front gives each tenant a URL
and checks its keys. "up" runs all of it in one process; "node" and "proxy" are the
parts alone.`,
		Example: `  corvo-cloud up                                  # everything, on http://127.0.0.1:8080
  corvo-cloud node --help
  corvo-cloud cell status --nodes http://127.0.0.1:7101 --cell-secret-file secret`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			return s.checkGlobals(c.Name())
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		Args: cobra.NoArgs,
	}
	root.SetOut(s.proc.Stdout)
	root.SetErr(s.proc.Stderr)
	root.PersistentFlags().StringVar(&s.logLevel, "log-level", "", "debug, info, warn or error; logs go to stderr (default warn, error for up)")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(s.upCommand(), s.controlCommand(), s.nodeCommand(), s.proxyCommand(), s.cellCommand(), s.mailboxCommand())
	return root
}

func (s *session) checkGlobals(command string) error {
	s.level.Set(slog.LevelWarn)
	if command == "up" { // Its reader is a newcomer, to whom an election is no news.
		s.level.Set(slog.LevelError)
	}
	if s.logLevel != "" {
		if err := s.level.UnmarshalText([]byte(s.logLevel)); err != nil {
			return usagef("--log-level %q isn't a level: use debug, info, warn or error", s.logLevel)
		}
	}
	if s.output != "" && s.output != outputText && s.output != outputJSON {
		bad := s.output
		s.output = outputText
		return usagef("--output %q isn't a format: use text or json", bad)
	}
	return nil
}

func (s *session) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(s.proc.Stderr, &slog.HandlerOptions{Level: &s.level}))
}

// list splits a comma list and drops empty items.
func list(text string) []string {
	var out []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
