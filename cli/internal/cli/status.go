package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// Version is the module version the binary was built from, or "devel".
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value[:min(12, len(setting.Value))]
		}
	}
	return ""
}

func (s *session) serverVerbs() []verb {
	var body string
	return append(slices.Concat(s.auditVerbs(), s.auditSinkVerbs()), []verb{
		s.serverVerb(), s.benchVerb(), s.conformanceVerb(),
		{root: "status", noun: "cluster status", short: "Show the health of the server and its cluster",
			long: `Shows the version and health of the server and, if the key allows it, the state of its
cluster. Exits with 0 only if the server is healthy and accepts the key.`,
			example: "  {cmd}\n  {cmd} -o json | jq .health.status",
			run:     func(c *cobra.Command, _ []string) error { return s.status(c.Context()) }},
		{root: "version", short: "Print the version of this program", example: "  {cmd}\n  {cmd} -o json",
			run: func(*cobra.Command, []string) error { return s.version() }},
		{root: "api", args: "METHOD PATH", short: "Send a request to the API and print the response",
			example: `  {cmd} GET /queues
  {cmd} POST /enqueue --body '{"queue":"emails","payload":{}}'`,
			flags: func(c *cobra.Command) { c.Flags().StringVar(&body, "body", "", "`JSON` to send, - for stdin") },
			run:   func(c *cobra.Command, args []string) error { return s.rawCall(c.Context(), args[0], args[1], body) }},
	}...)
}

func (s *session) version() error {
	v := map[string]string{"version": Version(), "commit": commit(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH}
	return s.emitValue(v, func(w io.Writer) {
		fmt.Fprintf(w, "corvo %s %s (%s, %s)\n", v["version"], v["commit"], v["go"], v["platform"])
	})
}

type statusView struct {
	URL     string          `json:"url"`
	Healthy bool            `json:"healthy"`
	Health  json.RawMessage `json:"health"`
	Info    json.RawMessage `json:"info"`
	Cluster json.RawMessage `json:"cluster"`
}

func (s *session) status(ctx context.Context) error {
	a, err := s.api()
	if err != nil {
		return err
	}
	view := statusView{URL: a.base.String()}
	info, err := a.send(ctx, get("/api/v1/info"))
	if err != nil {
		return err
	}
	view.Info = jsonOrNull(info.body)
	// An unhealthy answer is a fact to show, not an error to stop at.
	limited, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	health, err := a.exchange(limited, get("/healthz"), nil)
	if err != nil {
		return fromTransport(limited, http.MethodGet, a.base.String(), err)
	}
	view.Healthy, view.Health = health.status == http.StatusOK, jsonOrNull(health.body)
	refused := s.clusterPart(ctx, a, &view)
	if err := s.emitValue(view, func(w io.Writer) { printStatus(w, view) }); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	if !view.Healthy {
		return &Failure{Exit: ExitFail, Code: "UNHEALTHY", Status: health.status, What: view.URL + " isn't healthy", Fix: "check the server's log"}
	}
	return nil
}

// clusterPart fills in what only administrators of a node may see. Behind a
// proxy, or with a lesser key, its absence says nothing; only a key that is not
// accepted at all is an error.
func (s *session) clusterPart(ctx context.Context, a *api, view *statusView) error {
	cluster, err := a.send(ctx, get("/api/v1/cluster/status"))
	var f *Failure
	switch {
	case err == nil:
		view.Cluster = jsonOrNull(cluster.body)
		return nil
	case errors.As(err, &f) && f.Status != http.StatusUnauthorized && f.Status != 0:
		a.log.Debug("this key isn't allowed to see the cluster", "status", f.Status, "code", f.Code)
		return nil
	}
	return err
}

func jsonOrNull(raw json.RawMessage) json.RawMessage {
	if json.Valid(raw) {
		return raw
	}
	return json.RawMessage("null")
}

func printStatus(w io.Writer, view statusView) {
	fmt.Fprintf(w, "%-14s %s\n", "server", view.URL)
	health := "healthy"
	if !view.Healthy {
		health = "NOT healthy"
	}
	fmt.Fprintf(w, "%-14s %s\n", "health", health)
	printScalars(w, view.Info)
	printScalars(w, view.Cluster)
	printScrub(w, view.Cluster)
}

// printScrub shows what a node's last reading of all its files found.
func printScrub(w io.Writer, cluster json.RawMessage) {
	var view wire.ClusterStatus
	if json.Unmarshal(cluster, &view) != nil || view.Scrub == nil {
		return
	}
	s := view.Scrub
	found := "nothing damaged"
	if len(s.DamagedFiles) > 0 {
		found = "DAMAGED: " + strings.Join(s.DamagedFiles, ", ")
	}
	if len(s.RebuiltFiles) > 0 {
		found += "; rebuilt: " + strings.Join(s.RebuiltFiles, ", ")
	}
	fmt.Fprintf(w, "%-14s %s, %d files, %s\n", "scrubbed", s.EndedAt.Format(time.RFC3339), s.Files, found)
}

// printScalars shows the plain members of an object, sorted; nested ones are for -o json.
func printScalars(w io.Writer, raw json.RawMessage) {
	var members map[string]any
	if json.Unmarshal(raw, &members) != nil {
		return
	}
	names := make([]string, 0, len(members))
	for name, value := range members {
		switch value.(type) {
		case map[string]any, []any, nil:
		default:
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(w, "%-14s %v\n", name, members[name])
	}
}

func (s *session) rawCall(ctx context.Context, method, path, body string) error {
	a, err := s.api()
	if err != nil {
		return err
	}
	out := call{method: method, path: apiPath(path)}
	if body != "" {
		raw, err := s.payload([]string{body}, "")
		if err != nil {
			return err
		}
		out.body = raw
	}
	r, err := a.send(ctx, out)
	if err != nil {
		return err
	}
	if s.machine() && json.Valid(r.body) {
		return s.emit(r.body, nil)
	}
	return s.write(append(r.body, '\n'))
}

// apiPath accepts /queues for /api/v1/queues, and any full path as it is.
func apiPath(path string) string {
	for _, whole := range []string{"/api/", "/healthz", "/readyz", "/metrics", "/corvo."} {
		if len(path) >= len(whole) && path[:len(whole)] == whole {
			return path
		}
	}
	if len(path) > 0 && path[0] == '/' {
		return "/api/v1" + path
	}
	return "/api/v1/" + path
}
