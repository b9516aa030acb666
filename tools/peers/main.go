package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	// As the generator of `corvo bench`: collecting garbage would be paid by the server.
	debug.SetGCPercent(400)
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: peers run --peer NAME --workload enqueue|lifecycle [--callers N] [--jobs N] [--at-least D] [--payload-bytes N] [--sync-delay D], with NAME one of " + strings.Join(names(), ", "))

// command runs what people call, and what this program calls itself for: a process
// under a delay, and a NATS server.
func command(args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	switch verb, args := args[0], args[1:]; {
	case verb == "run":
		return runCommand(args)
	case verb == "delay" && len(args) > 3: // DELAY COUNTER -- PROGRAM ...
		d, err := time.ParseDuration(args[0])
		if err != nil {
			return fmt.Errorf("read the delay: %w", err)
		}
		return delayed(d, args[1], args[3:])
	case verb == "enter" && len(args) > 1: // -- PROGRAM ...
		return enter(args[1:])
	case verb == "probe" && len(args) == 1: // DIR
		return probe(args[0])
	case verb == "nats-server" && len(args) == 2: // PORT DIR
		return serveNATS(args[0], args[1])
	}
	return errUsage
}

func runCommand(args []string) error {
	var o options
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	fs.StringVar(&o.peer, "peer", "", "which queue: "+strings.Join(names(), ", "))
	fs.StringVar(&o.workload, "workload", enqueue, "enqueue or lifecycle (fetch and ack)")
	fs.IntVar(&o.callers, "callers", 10, "producers or handlers, each with one job at a time")
	fs.IntVar(&o.jobs, "jobs", 2_000, "number of jobs to measure")
	fs.DurationVar(&o.atLeast, "at-least", 0, "repeat with more jobs until that took so long")
	fs.IntVar(&o.payloadBytes, "payload-bytes", 100, "size of each payload")
	fs.DurationVar(&o.syncDelay, "sync-delay", 0, "how much longer every sync of the server takes")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if !slices.Contains(names(), o.peer) || o.workload != enqueue && o.workload != lifecycle || o.callers < 1 || o.jobs < 1 || o.payloadBytes < payloadBytesMin || o.syncDelay < 0 || o.atLeast < 0 {
		return errUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, o)
	if err != nil {
		return fmt.Errorf("%s: %w", o.peer, err)
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
