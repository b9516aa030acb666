package cli

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// DefaultServer is where client commands look when nothing else was said.
const DefaultServer = "http://127.0.0.1:8080"

// Process is the surroundings of one invocation.
type Process struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            func(string) string
}

// OS is the Process of the running program.
func OS() Process {
	return Process{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv}
}

// Main runs one invocation and returns its exit code.
func Main(ctx context.Context, args []string, p Process) int {
	s := newSession(p)
	root := s.rootCommand()
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		f := toFailure(err)
		// A bad flag stops parsing, so the output format is read from the raw arguments.
		s.report(f, s.machine() || asksForJSON(args))
		return f.Exit
	}
	return s.exit
}

// session is one invocation: the global flags and where to print.
type session struct {
	proc Process

	server     string
	apiKey     string
	apiKeyFile string
	namespace  string
	output     string
	outputJSON bool
	timeout    time.Duration
	logLevel   string

	made *api // The one connection of the invocation, once it is wanted.

	// exit is the code of a command that printed its data but has more to say
	// with its exit status, such as partial success.
	exit int
}

func newSession(p Process) *session { return &session{proc: p, output: outputText} }

func (s *session) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "corvo",
		Short: "Run and manage durable job queues",
		Long: `Corvo is a durable job queue. Once a job is accepted, it is on disk. Corvo hands it
to one worker at a time until a worker completes it.`,
		Example: `  corvo server                                   # a node on http://127.0.0.1:8080
  corvo enqueue emails '{"to":"ada@example.com"}'
  corvo work emails -- ./send-email.sh            # runs once per job, payload on stdin
  corvo queues
  corvo inspect job_01JD0Z5W6T8RXVQ4K2M3N7P9SB`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: s.checkGlobals,
		RunE:              func(c *cobra.Command, _ []string) error { return c.Help() },
		Args:              noSuchCommand,
	}
	root.SetIn(s.proc.Stdin)
	root.SetOut(s.proc.Stdout)
	root.SetErr(s.proc.Stderr)
	s.globalFlags(root)
	root.SetFlagErrorFunc(flagFailure)
	s.mount(root)
	polishHelp(root)
	return root
}

func (s *session) globalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&s.server, "server", "", "base `URL` of the server or tenant (env CORVO_URL, then your profile; default "+DefaultServer+")")
	f.StringVar(&s.apiKeyFile, "api-key-file", "", "read the API key from `FILE`, - for stdin (otherwise env CORVO_API_KEY, then your profile)")
	f.StringVar(&s.apiKey, "api-key", "", "API `KEY`; for existing scripts only, because other users of this machine can see it in the process list")
	f.StringVar(&s.namespace, "namespace", "", "namespace `NAME`, for keys that can use several (env CORVO_NAMESPACE)")
	f.StringVarP(&s.output, "output", "o", outputText, "output `FORMAT`: text, json or jsonl")
	f.BoolVar(&s.outputJSON, "output-json", false, "same as --output json")
	f.DurationVar(&s.timeout, "timeout", 30*time.Second, "time limit of a request, not counting a wait for jobs")
	f.StringVar(&s.logLevel, "log-level", "info", "debug, info, warn or error; debug shows requests on stderr")
	completeWords(root, "output", outputText, outputJSON, outputJSONL)
	completeWords(root, "log-level", "debug", "info", "warn", "error")
}

// checkGlobals refuses impossible global flags before any command runs.
func (s *session) checkGlobals(c *cobra.Command, _ []string) error {
	if s.outputJSON {
		if c.Flags().Changed("output") && s.output != outputJSON {
			return usagef("use --output-json or --output %s, not both", s.output)
		}
		s.output = outputJSON
	}
	switch s.output {
	case outputText, outputJSON, outputJSONL:
	default:
		bad := s.output
		s.output = outputText
		return usagef("--output %q isn't a format: use text, json or jsonl", bad)
	}
	if _, err := parseLevel(s.logLevel); err != nil {
		return err
	}
	if s.timeout <= 0 {
		return usagef("--timeout must be more than zero")
	}
	return nil
}

func parseLevel(text string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return 0, usagef("--log-level %q isn't a level: use debug, info, warn or error", text)
	}
	return level, nil
}

func (s *session) logger() *slog.Logger {
	level, err := parseLevel(s.logLevel)
	if err != nil {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(s.proc.Stderr, &slog.HandlerOptions{Level: level}))
}

func (s *session) serverURL() (*url.URL, error) {
	text := cmp.Or(s.server, s.proc.Env("CORVO_URL"))
	if text == "" {
		p, err := s.currentProfile()
		if err != nil {
			return nil, err
		}
		text = cmp.Or(p.URL, DefaultServer)
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, usagef("the server address %q isn't an http or https URL", text)
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, usagef("the server address %q can only have a host and a path", u.Redacted())
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u, nil
}

// key finds the API key: file, then flag, then environment, then profile. Empty is allowed,
// a server on loopback may be open.
func (s *session) key() (string, error) {
	if s.apiKeyFile != "" && s.apiKey != "" {
		return "", usagef("use --api-key-file or --api-key, not both")
	}
	if s.apiKeyFile == "" {
		if s.apiKey != "" {
			return s.apiKey, nil
		}
		return s.ambientKey()
	}
	raw, err := s.readKeyFile()
	if err != nil {
		return "", &Failure{Exit: ExitUsage, Code: "KEY_FILE", What: "can't read the API key", Why: err.Error(),
			Fix: "check the path given to --api-key-file"}
	}
	key := strings.TrimSpace(string(raw))
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", &Failure{Exit: ExitUsage, Code: "KEY_FILE", What: "the API key file doesn't contain a key",
			Why: "it must contain one key and nothing else", Fix: "write the key on one line of " + s.apiKeyFile}
	}
	return key, nil
}

// ambientKey is the environment's key, else the profile's.
func (s *session) ambientKey() (string, error) {
	if key := strings.TrimSpace(s.proc.Env("CORVO_API_KEY")); key != "" {
		return key, nil
	}
	p, err := s.currentProfile()
	return p.APIKey, err
}

// person is the profile in use if its person's session counts for jobs, which it does if
// no key is given; else nil.
func (s *session) person() (*personal, error) {
	p, err := s.manageProfile()
	if err != nil || p.User == "" {
		return nil, err
	}
	token, err := s.sessionToken(p.account())
	if err != nil {
		return nil, err
	}
	namespace := cmp.Or(s.namespace, s.proc.Env("CORVO_NAMESPACE"), p.Namespace)
	c := &cloud{endpoint: p.Endpoint, token: token, http: newHTTPClient()}
	return &personal{session: s, cloud: c, tenant: p.Tenant, namespace: namespace}, nil
}

// manageProfile is the profile in use if its API key is; else the zero profile.
func (s *session) manageProfile() (profile, error) {
	if s.apiKeyFile != "" || s.apiKey != "" || strings.TrimSpace(s.proc.Env("CORVO_API_KEY")) != "" {
		return profile{}, nil
	}
	return s.currentProfile()
}

func (s *session) readKeyFile() ([]byte, error) {
	if s.apiKeyFile == "-" {
		return io.ReadAll(io.LimitReader(s.proc.Stdin, 4<<10))
	}
	info, err := os.Stat(s.apiKeyFile)
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		s.talkf("warning: other users can read %s; run chmod 600 on it", filepath.Clean(s.apiKeyFile))
	}
	return os.ReadFile(s.apiKeyFile)
}

// asksForJSON reads the output flag without a parser, for errors of the parser.
func asksForJSON(args []string) bool {
	for i, a := range args {
		switch {
		case a == "--":
			return false
		case a == "--output-json", a == "-ojson", a == "-ojsonl",
			strings.HasPrefix(a, "--output=json"), strings.HasPrefix(a, "-o=json"):
			return true
		case (a == "-o" || a == "--output") && i+1 < len(args):
			return strings.HasPrefix(args[i+1], "json")
		}
	}
	return false
}

func noSuchCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	f := usagef("%q isn't a command of %s", args[0], c.CommandPath())
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		f.Fix = "did you mean `" + c.CommandPath() + " " + near[0] + "`?"
	} else {
		f.Fix = "`" + c.CommandPath() + " --help` lists the commands"
	}
	return f
}
