package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/session"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// errNoOperator tells nobody more than that they are none.
var errNoOperator = fault.New(fault.Denied, "OPERATOR_ONLY",
	"this is for operators of the service, in a browser they signed in to by email; somebody on the control plane's host names them: corvo-cloud control operators add")

// asOperator lets in whoever is an operator and has shown a second factor in this session: for
// changes, not long ago.
func (g *gate) asOperator(ctx context.Context, c access.Caller) (access.Caller, error) {
	if !c.ByEmail() {
		return c, errNoOperator
	}
	var o store.Operator
	var has bool
	err := g.Store.ReadService(ctx, func(tx *store.Tx) (err error) {
		if o, err = tx.GetOperator(ctx, c.UserID); err != nil {
			return err
		}
		has, err = tx.HasFactor(ctx, c.UserID)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return c, errNoOperator
	case err != nil:
		return c, fmt.Errorf("look for an operator: %w", err)
	case !has:
		return c, fault.New(fault.Denied, "SECOND_FACTOR_SETUP_REQUIRED",
			"operators need a second factor; set one up at %s, under Your account, and try again", g.URLs.Public)
	case !g.rule.safe && o.Role != store.OperatorAdmin:
		return c, fault.New(fault.Denied, "OPERATOR_VIEWER", "you may look and not change anything: you are an operator with the role %s; changes need %s", o.Role, store.OperatorAdmin)
	case c.ProvedAt.IsZero(), !g.rule.safe && !session.Proved(c.ProvedAt, g.Now()):
		return c, session.ErrStepUp
	}
	c.Operator = true
	return c, nil
}
