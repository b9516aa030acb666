package principals

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// How many of each a tenant may have. Proxies and the gate read none of these tables per
// call of a job; the bounds keep one tenant's changes from being slow for all.
const (
	rolesMax           = 500
	serviceAccountsMax = 5_000
	groupsMax          = 2_000
	groupMembersMax    = 20_000
	bindingsMax        = 20_000
	// atOnceMax is how many members one call adds or removes.
	atOnceMax = 1_000
)

const (
	// nameMax and descriptionMax are in characters.
	nameMax        = 100
	descriptionMax = 500
)

// Service is the use cases. All fields are needed.
type Service struct {
	kit.Kit
	// ObserveWait is how long a call waits until the cell knows what it changed.
	ObserveWait time.Duration
}

// checkText says what is wrong with a name and a description.
func checkText(name, description string) []fault.Field {
	var wrong []fault.Field
	switch {
	case name == "":
		wrong = append(wrong, fault.Field{Name: "name", Problem: "enter one"})
	case !plain(name, nameMax):
		wrong = append(wrong, fault.Field{Name: "name", Problem: "can't have more than 100 characters, nor control characters"})
	}
	if !plain(description, descriptionMax) {
		wrong = append(wrong, fault.Field{Name: "description", Problem: "can't have more than 500 characters, nor control characters"})
	}
	return wrong
}

func plain(text string, most int) bool {
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > most {
		return false
	}
	for _, r := range text {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return false
		}
	}
	return true
}

// none turns the store's word for what is not there into the one answer for it.
func none(err error, what string) error {
	if errors.Is(err, store.ErrNotFound) {
		return fault.Missing(what)
	}
	return err
}

// taken turns the store's word for a name that is there into a refusal.
func taken(err error, what, name string) error {
	if errors.Is(err, store.ErrExists) {
		return fault.New(fault.Exists, "NAME_TAKEN", "there is a %s called %s already; choose another name", what, name)
	}
	return err
}

// room refuses one more of what a tenant has as many as it may.
func room(ctx context.Context, tenantID, what string, most int, count func(context.Context, string) (int, error)) error {
	n, err := count(ctx, tenantID)
	if err == nil && n >= most {
		err = fault.New(fault.Conflict, "LIMIT", "a tenant can't have more than %d %s; delete one that you don't need", most, what)
	}
	return err
}

// settled waits, after a change of rights, until every proxy knows it, for a while: the
// answer does not say so, since nothing is lost if it takes longer.
func (s *Service) settled(ctx context.Context) {
	s.Wake()
	ctx, cancel := context.WithTimeout(ctx, s.ObserveWait)
	defer cancel()
	tenantID := access.From(ctx).TenantID
	_, err := s.Await(ctx, tenantID, func(tx *store.Tx) (bool, error) {
		waits, err := tx.HasOutbox(ctx, tenantID, store.OutboxAccess, tenantID, s.Now())
		return !waits, err
	})
	if err != nil {
		s.Log.WarnContext(ctx, "wait until proxies know a change of rights", "error", err)
	}
}

func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
