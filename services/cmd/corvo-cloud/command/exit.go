package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"syscall"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/node"
	"github.com/corvo-cloud/corvo/services/datadir"
	"github.com/corvo-cloud/corvo/services/up"
)

// Exit codes; the same words as those of corvo. Scripts depend on them: append
// only. docs/operations.md has the table.
const (
	ExitOK       = 0
	ExitFail     = 1                // Anything without a code of its own.
	ExitUsage    = 2                // The command line or the request is wrong.
	ExitNotFound = 3                // No such tenant, namespace, key or node.
	ExitAuth     = 4                // The cell secret is not the cell's.
	ExitConflict = 5                // The cell's state does not allow it; a port or directory is in use.
	ExitTimeout  = 7                // No answer in time: a change may or may not have happened.
	ExitStopped  = node.ExitStopped // 70: the node stopped itself; somebody has to look.
	ExitStuck    = node.ExitStuck   // 75: the shutdown was cut off; start again.
	ExitVersion  = node.ExitVersion // 78: this program doesn't speak the cell's version.
)

// Failure is an error as a person or a script reads it.
type Failure struct {
	Exit int
	Code string // Stable upper-snake word.
	What string
	Why  string
	Fix  string // What to do about it.
}

func (f *Failure) Error() string {
	if f.Why == "" {
		return f.What
	}
	return f.What + ": " + f.Why
}

func usagef(format string, args ...any) *Failure {
	return &Failure{Exit: ExitUsage, Code: "USAGE", What: fmt.Sprintf(format, args...), Fix: "add --help to see flags and examples"}
}

// toFailure gives every error a code and a way out. An error that is nothing we
// know comes from the flag parser.
func toFailure(err error) *Failure {
	var f *Failure
	if errors.As(err, &f) {
		return f
	}
	return usagef("%v", err)
}

// serverFailure explains why a process of the service did not start or ended.
func serverFailure(what string, err error) error {
	var known *Failure
	if err == nil || errors.As(err, &known) {
		return err
	}
	f := &Failure{Exit: ExitFail, Code: "SERVER", What: what, Why: err.Error()}
	for _, k := range serverFailures {
		if errors.Is(err, k.err) {
			f.Exit, f.Code, f.Fix = k.exit, k.code, k.fix
			break
		}
	}
	return f
}

const newNode = "start a node with a new id, an empty --data and --join"

// serverFailures are looked through from the top.
var serverFailures = []struct {
	err  error
	exit int
	code string
	fix  string
}{
	{datadir.ErrInUse, ExitConflict, "DATA_IN_USE", "stop the process that uses it, or use another --data"},
	{datadir.ErrOtherVersion, ExitConflict, "DATA_VERSION", "start the version that wrote it, or use another --data"},
	{datadir.ErrForeign, ExitConflict, "DATA_FOREIGN", "use a --data that is empty or was made by this command"},
	{up.ErrIncomplete, ExitConflict, "DATA_INCOMPLETE", "put it back, or use another --data; up can't replace a node"},
	{up.ErrCellSecret, ExitConflict, "KEY_FILE", "write one secret of at least 16 characters per line, the current one first; remove the file to get a new one"},
	{up.ErrMasterKeys, ExitConflict, "KEY_FILE", "restore it from a backup: one key of 64 hex digits per line, the current one first"},
	{node.ErrFolder, ExitConflict, "DATA_FOREIGN", "check --data and --id: a node keeps its folder and its id for life"},
	{node.ErrRefused, ExitConflict, "NODE_REFUSED", "remove its id with `corvo-cloud cell remove-node` if it is still in the cell, then " + newNode},
	{node.ErrWiped, ExitConflict, "DATA_INCOMPLETE", "put it back, or remove its id with `corvo-cloud cell remove-node` and " + newNode},
	{up.ErrShape, ExitConflict, "DATA_SHAPE", "use the same --nodes and --shards as before, or another --data"},
	{up.ErrStuck, ExitStuck, "STUCK", againSafe},
	{node.ErrStuck, ExitStuck, "STUCK", againSafe},
	{node.ErrVersion, ExitVersion, "CELL_VERSION", "the data is as it should be: start it with the version of corvo-cloud that the other nodes run (docs/upgrades.md)"},
	{node.ErrRecovering, ExitConflict, "RECOVERING", "run `corvo-cloud node recover --data ... --accept-loss` again: it goes on where it was interrupted"},
	{node.ErrQuarantined, ExitFail, "QUARANTINED", "start it again, then run `corvo-cloud cell repair --group 1 --node ...` (docs/operations.md)"},
	{node.ErrLogDamaged, ExitConflict, "LOG_DAMAGED", "remove its id with `corvo-cloud cell remove-node`, then " + newNode},
	{node.ErrOnlyCopy, ExitConflict, "ONLY_COPY", "copy the folder and check the disk; what is damaged has no other copy"},
	{node.ErrStorage, ExitStopped, "STORAGE", "don't restart it in a loop: check the disk; in a cell, `corvo-cloud node repair` says whether its state can be copied from the others, or whether it must be replaced (docs/operations.md)"},
	{syscall.EIO, ExitStopped, "STORAGE", "don't restart it in a loop: check the disk"},
	{node.ErrKeyFile, ExitConflict, "KEY_FILE", ""},
}

const againSafe = "nothing that was acknowledged is lost; start it again"

// listenFailure explains why an address can not be used.
func listenFailure(flag, address string, err error) error {
	f := &Failure{Exit: ExitFail, Code: "LISTEN", What: fmt.Sprintf("can't listen on %s %s", flag, address), Why: err.Error()}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		f.Exit, f.Code, f.Why = ExitConflict, "PORT_IN_USE", "another process is using this port"
		f.Fix = "stop that process, or choose another port with " + flag + " (port 0 picks a free one)"
	case errors.Is(err, syscall.EACCES):
		f.Fix = "ports below 1024 need extra privileges; choose a higher one with " + flag
	default:
		f.Fix = "use a host and port of this machine, such as 127.0.0.1:8080, with " + flag
	}
	return f
}

// cellFailure explains what a cell answered.
func cellFailure(err error) error {
	var known *Failure
	if err == nil || errors.As(err, &known) {
		return err
	}
	f := &Failure{Exit: ExitFail, Code: "CELL", What: "the cell refused", Why: err.Error()}
	var refused *connect.Error
	if errors.As(err, &refused) {
		f.Why = refused.Message()
	}
	if errors.Is(err, celladmin.ErrNotFound) {
		f.Exit, f.Code = ExitNotFound, "NOT_FOUND"
		return f
	}
	if errors.Is(err, celladmin.ErrControlled) {
		f.Exit, f.Code, f.Fix = ExitConflict, "CONTROLLED", "change it there: in the console, with Terraform or the control API; a tenant's limits with corvo-cloud control set-plan"
		return f
	}
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument:
		f.Exit, f.Code = ExitUsage, "INVALID"
	case connect.CodeNotFound:
		f.Exit, f.Code = ExitNotFound, "NOT_FOUND"
	case connect.CodeFailedPrecondition, connect.CodeResourceExhausted:
		f.Exit, f.Code = ExitConflict, "CONFLICT"
	case connect.CodeUnauthenticated, connect.CodePermissionDenied:
		f.Exit, f.Code, f.Fix = ExitAuth, "UNAUTHORIZED", "check --cell-secret-file and this machine's clock"
	case connect.CodeDeadlineExceeded:
		f.Exit, f.Code, f.Fix = ExitTimeout, "TIMEOUT", "check with `corvo-cloud cell status`; it is safe to run this again"
	case connect.CodeUnavailable:
		f.Exit, f.Code, f.Fix = ExitTimeout, "UNAVAILABLE", "check --nodes, and that most nodes of the cell are running"
	}
	if refused != nil && refused.Meta().Get("Corvo-Reason") != "" {
		f.Code = refused.Meta().Get("Corvo-Reason")
	}
	if f.Code == "CLOCK_SKEW" { // No node did anything, and none will.
		f.Exit, f.Fix = ExitConflict, "set this machine's clock, or run the command on another machine"
	}
	return f
}

// report writes a failure to stderr: one JSON line for programs, lines of talk for
// people.
func (s *session) report(f *Failure) {
	if s.output == outputJSON {
		line, err := json.Marshal(map[string]any{"error": f.Error(), "code": f.Code, "exit": f.Exit, "fix": f.Fix})
		if err == nil {
			fmt.Fprintf(s.proc.Stderr, "%s\n", line)
			return
		}
	}
	fmt.Fprintf(s.proc.Stderr, "corvo-cloud: %s\n", f.Error())
	if f.Fix != "" {
		fmt.Fprintf(s.proc.Stderr, "  %s\n", f.Fix)
	}
}
