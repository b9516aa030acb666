package cell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"connectrpc.com/connect"

	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

func TestFault_ArrivesUnchanged(t *testing.T) {
	t.Parallel()
	for code := fault.Internal; code <= fault.UnknownOutcome; code++ {
		sent := fault.New(code, "SOME_REASON", "a sentence with 100%% of the text")
		sent.Leader = "http://127.0.0.1:1"
		got := Fault(ToConnect(fmt.Errorf("while applying: %w", sent)))
		if got.Code != code || got.Reason != sent.Reason || got.Message != sent.Message || got.Leader != sent.Leader {
			t.Errorf("%v arrived as %+v", code, got)
		}
	}
}

func TestFault_OnlyFaultsAreShown(t *testing.T) {
	t.Parallel()
	err := ToConnect(errors.New("open /secret/path: denied"))
	if connect.CodeOf(err) != connect.CodeInternal || strings.Contains(err.Error(), "secret") {
		t.Errorf("shown: %v", err)
	}
	if err := ToConnect(fmt.Errorf("watch: %w", context.Canceled)); connect.CodeOf(err) != connect.CodeCanceled {
		t.Errorf("cancelled: %v", err)
	}
	if ToConnect(nil) != nil {
		t.Error("no error became one")
	}
}

func TestFault_OfACallThatDidNotArrive(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for name, c := range map[string]struct {
		err  error
		code fault.Code
	}{
		"never sent":   {connect.NewError(connect.CodeUnavailable, dial), fault.Unavailable},
		"broken off":   {connect.NewError(connect.CodeUnavailable, errors.New("reset")), fault.UnknownOutcome},
		"ran out":      {connect.NewError(connect.CodeDeadlineExceeded, errors.New("late")), fault.UnknownOutcome},
		"no protocol":  {errors.New("eof"), fault.UnknownOutcome},
		"not let in":   {connect.NewError(connect.CodeUnauthenticated, errors.New("no")), fault.Unauthorized},
		"other server": {connect.NewError(connect.CodeUnimplemented, errors.New("404")), fault.Internal},
	} {
		if got := Fault(c.err); got.Code != c.code {
			t.Errorf("%s: %v, want %v", name, got.Code, c.code)
		}
	}
}

func TestApply_NothingGetsIntoTheLogThatAReplicaCouldNotRead(t *testing.T) {
	t.Parallel()
	c := newTestCell(t, 1)
	n := c.leader()
	before := n.cell.Group().Status().LastIndex
	huge := make([]*cellv1.Change, 0, 1500)
	for i := range cap(huge) {
		k := testKey(i, 1)
		for ns := range keyNamespacesMax {
			k.Grants[0].NamespaceIds = append(k.Grants[0].NamespaceIds, nsID(ns))
		}
		huge = append(huge, keyChange(k))
	}
	unknown := testTenant(1, "acme")
	unknown.ProtoReflect().SetUnknown([]byte{0xF8, 0x01, 0x01})
	for name, x := range map[string]struct {
		changes []*cellv1.Change
		code    fault.Code
	}{
		"no change":      {nil, fault.Invalid},
		"empty change":   {[]*cellv1.Change{{}}, fault.Invalid},
		"nil change":     {[]*cellv1.Change{nil}, fault.Invalid},
		"nil record":     {[]*cellv1.Change{tenantChange(nil)}, fault.Invalid},
		"unknown change": {[]*cellv1.Change{unknown}, fault.Invalid},
		"not UTF-8":      {[]*cellv1.Change{testTenant(1, "a\xffb")}, fault.Invalid},
		"too many":       {make([]*cellv1.Change, changesMax+1), fault.Invalid},
		"too large":      {huge, fault.TooLarge},
		"bad name":       {[]*cellv1.Change{testTenant(1, "A")}, fault.Invalid},
	} {
		if _, err := n.cell.Apply(testContext(t), &cellv1.ApplyRequest{Changes: x.changes}); fault.As(err) == nil || fault.CodeOf(err) != x.code {
			t.Errorf("%s: %v, want %v", name, err, x.code)
		}
	}
	if after := n.cell.Group().Status().LastIndex; after != before {
		t.Errorf("the log grew from %d to %d", before, after)
	}
}
