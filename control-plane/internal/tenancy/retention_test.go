package tenancy

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"

	"github.com/corvo-cloud/corvo/control-plane/internal/plans"
)

const (
	anHour = 3600
	aDay   = 24 * anHour
)

func TestRetention_OfANamespaceIsThePlansUntilItIsSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	n := w.namespaceFor(t, ctx, "orders")
	w.outbox(t)
	want := &cloudv1.Retention{
		CompletedSeconds: 7 * aDay, DeadSeconds: 30 * aDay, CancelledSeconds: 30 * aDay, FinishedMax: 1_000_000,
		EventsSeconds: 7 * aDay, EventsBytesMax: 64 << 20, UsageSeconds: 400 * aDay,
	}
	if n.GetRetention() != nil || !proto.Equal(n.GetEffectiveRetention(), want) || n.GetRetentionMax().GetDeadSeconds() != 90*aDay {
		t.Errorf("%v", n)
	}
	update := func(r *cloudv1.Retention) (*cloudv1.Namespace, error) {
		res, err := w.UpdateNamespace(ctx, &cloudv1.UpdateNamespaceRequest{Namespace: "orders", Retention: r, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"retention"}}})
		return res.GetNamespace(), err
	}
	own := &cloudv1.Retention{CompletedSeconds: anHour, FinishedMax: 500, EventsBytesMax: 1 << 20}
	n = must(update(own))(t)
	want.CompletedSeconds, want.FinishedMax, want.EventsBytesMax = anHour, 500, 1<<20
	if !proto.Equal(n.GetRetention(), own) || !proto.Equal(n.GetEffectiveRetention(), want) || n.GetGeneration() != 2 || len(w.outbox(t)) != 1 {
		t.Errorf("%v", n)
	}
	changes := w.auditOf(t, ctx)[0].GetChanges().GetFields()["retention"].GetStructValue().GetFields()
	if len(changes["before"].GetStructValue().GetFields()) != 0 || changes["after"].GetStructValue().GetFields()["completed_seconds"].GetNumberValue() != anHour {
		t.Errorf("audit %v", changes)
	}
	// What stays the same is nothing for the cell.
	if n = must(update(own))(t); n.GetGeneration() != 2 || len(w.outbox(t)) != 0 {
		t.Errorf("%v", n)
	}
	if n = must(update(nil))(t); n.GetRetention() != nil || n.GetEffectiveRetention().GetCompletedSeconds() != 7*aDay || n.GetGeneration() != 3 {
		t.Errorf("%v", n)
	}
}

func TestRetention_RefusesWhatIsOutOfBoundsOrOverThePlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := w.tenant(t, "acme", plans.First)(owner)
	create := func(name string, r *cloudv1.Retention) error {
		_, err := w.CreateNamespace(ctx, &cloudv1.CreateNamespaceRequest{Name: name, Retention: r})
		return err
	}
	for name, r := range map[string]*cloudv1.Retention{
		"completed_seconds": {CompletedSeconds: 59},
		"dead_seconds":      {DeadSeconds: 3660*aDay + 1},
		"cancelled_seconds": {CancelledSeconds: -1},
		"finished_max":      {FinishedMax: -1},
		"events_seconds":    {EventsSeconds: 1},
		"events_bytes_max":  {EventsBytesMax: 1000},
		"usage_seconds":     {UsageSeconds: 59},
	} {
		field(t, create("orders", r), "retention."+name)
	}
	refusal := refused(t, create("orders", &cloudv1.Retention{CompletedSeconds: 60 * aDay, DeadSeconds: 60 * aDay}), "PLAN_LIMIT")
	if len(refusal.Fields) != 1 || !strings.Contains(refusal.Error(), "the plan free of tenant acme") || !strings.Contains(refusal.Error(), "is 5184000 (60 d), must be at most 2592000 (30 d), which is what the plan free keeps") {
		t.Errorf("%v", refusal)
	}
	if err := create("orders", &cloudv1.Retention{CompletedSeconds: 30 * aDay}); err != nil {
		t.Error(err)
	}
	big := w.tenant(t, "operator", plans.Operators)(owner)
	n := must(w.CreateNamespace(big, &cloudv1.CreateNamespaceRequest{Name: "orders", Retention: &cloudv1.Retention{CompletedSeconds: 3650 * aDay}}))(t).GetNamespace()
	if n.GetEffectiveRetention().GetCompletedSeconds() != 3650*aDay || n.GetEffectiveRetention().GetFinishedMax() != 0 {
		t.Errorf("%v", n)
	}
}
