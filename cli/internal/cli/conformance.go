package cli

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/cli/conformance"
)

func (s *session) conformanceVerb() verb {
	var o conformance.Options
	return verb{
		root: "conformance", short: "Check that a server follows every rule on every protocol",
		long: `Checks each rule of jobs and queues over HTTP/JSON, Connect, gRPC and the worker stream
against --server, and prints a table. Exits with 1 if a rule fails.

It creates queues named conformance-… and deletes them afterwards, so it can run beside
other work. The key needs every permission, because rules also configure queues. A few rules affect or count everything in the namespace. They run only with
--whole-namespace; use it when nobody else is using the namespace.`,
		example: `  corvo conformance
  corvo conformance --only "a unique key"
  corvo conformance --protocol http,stream --output json`,
		flags: func(c *cobra.Command) {
			fs := c.Flags()
			fs.StringSliceVar(&o.Protocols, "protocol", nil, strings.Join(conformance.Protocols, ", ")+" (default: all)")
			fs.StringVar(&o.Only, "only", "", "run the rules whose subject or name contains `TEXT`")
			fs.StringSliceVar(&o.Without, "without", nil, "skip rules of features that the server doesn't have")
			fs.BoolVar(&o.Whole, "whole-namespace", false, "also run the rules that affect the whole namespace")
			fs.IntVar(&o.Parallel, "parallel", 0, "rules to run at the same time (default 16)")
		},
		run: func(c *cobra.Command, _ []string) error { return s.conformance(c, o) },
	}
}

func (s *session) conformance(c *cobra.Command, o conformance.Options) error {
	for _, p := range o.Protocols {
		if !slices.Contains(conformance.Protocols, p) {
			return usagef("--protocol %q is none of %s", p, strings.Join(conformance.Protocols, ", "))
		}
	}
	if o.Parallel < 0 {
		return usagef("--parallel can't be negative")
	}
	a, err := s.api()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o.Namespace = a.namespace
	report := conformance.Check(ctx, a.base.String(), a.key, o)
	if ctx.Err() != nil {
		return interruption("the run didn't finish")
	}
	if len(report.Rows) == 0 {
		return usagef("no rule matches %q", o.Only)
	}
	var broken error
	err = s.emitValue(report, func(w io.Writer) { broken = report.Write(w) })
	if err == nil && broken != nil {
		err = fmt.Errorf("print the table: %w", broken)
	}
	if len(report.Failures()) > 0 {
		s.exit = ExitFail
	}
	return err
}
