package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
)

func main() {
	module := flag.String("module", "data-plane", "directory of the module")
	only := flag.String("only", "", "run only mutations whose description contains this")
	from := flag.Int("from", 0, "skip so many mutations")
	parallel := flag.Int("parallel", runtime.NumCPU(), "how many mutations are tried at the same time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *module, chosen(*module, *only, *from), *parallel)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// tables are the mutations of each module.
func tables(module string) []mutation {
	switch filepath.ToSlash(module) {
	case "control-plane":
		return slices.Concat(doorMutations, ledgerMutations, paymentMutations)
	case "control-plane/api":
		return billMutations
	case "data-plane/api":
		return slices.Concat(grantMutations, callMutations)
	case faultsModule:
		return faultMutations
	case "services":
		return slices.Concat(proxyMutations, frontMutations)
	}
	return slices.Concat(mutations, ruleMutations, orderMutations, meterMutations, planMutations, floorMutations, cellMutations, nodeMutations)
}

func chosen(module, only string, from int) []mutation {
	all := tables(module)
	return slices.DeleteFunc(all[min(from, len(all)):], func(m mutation) bool { return !strings.Contains(m.what, only) })
}

// outcome is what became of one mutation.
type outcome struct {
	caught string // The tests that failed; nothing if the mutant survived.
	err    error
}

// run tries the mutations and prints, in their order, who caught each.
func run(ctx context.Context, module string, chosen []mutation, parallel int) error {
	var broken error
	for _, m := range chosen { // Before minutes are spent on the others.
		_, _, err := m.source(module)
		broken = errors.Join(broken, err)
	}
	if broken != nil {
		return broken
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return fmt.Errorf("make a directory for the overlays: %w", err)
	}
	survivors, late := 0, 0
	for i, o := range tryAll(ctx, module, dir, chosen, parallel) {
		if ctx.Err() != nil {
			broken = errors.Join(broken, fmt.Errorf("stopped after %d of %d: %w", i, len(chosen), ctx.Err()))
			break
		}
		m := chosen[i]
		switch {
		case o.err != nil:
			broken = errors.Join(broken, fmt.Errorf("%s: %w", m.what, o.err))
			continue
		case o.caught == "":
			survivors++
			o.caught = "NOBODY"
		case o.caught == ranOut && !hang[m.what]:
			late++
			o.caught = "NOT KNOWN: its tests did not end in time"
		}
		fmt.Printf("%-62s %s\n", m.what, o.caught)
	}
	if survivors > 0 {
		broken = errors.Join(broken, fmt.Errorf("%d of %d mutations were noticed by no test", survivors, len(chosen)))
	}
	if late > 0 {
		broken = errors.Join(broken, fmt.Errorf("the tests of %d of %d mutations did not end in %s: try them again, or name them in hang (try.go) if that is the bug", late, len(chosen), perRound))
	}
	if broken == nil {
		fmt.Printf("mutants: all %d were caught\n", len(chosen))
	}
	return errors.Join(broken, os.RemoveAll(dir))
}

// tryAll yields the outcomes in the order of the mutations, each as soon as it and
// those before it are known.
func tryAll(ctx context.Context, module, dir string, chosen []mutation, parallel int) iter.Seq2[int, outcome] {
	return func(yield func(int, outcome) bool) {
		outcomes := make([]chan outcome, len(chosen))
		for i := range outcomes {
			outcomes[i] = make(chan outcome, 1)
		}
		next := make(chan int)
		var workers sync.WaitGroup
		for range parallel {
			workers.Go(func() {
				for i := range next {
					caught, err := chosen[i].try(ctx, module, dir)
					outcomes[i] <- outcome{caught, err}
				}
			})
		}
		go func() {
			for i := range chosen {
				next <- i
			}
			close(next)
		}()
		for i := range outcomes {
			if !yield(i, <-outcomes[i]) {
				break
			}
		}
		workers.Wait()
	}
}
