package server

import (
	"context"
	"errors"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/operators"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// Roles of operators.
const (
	OperatorViewer = store.OperatorViewer
	OperatorAdmin  = store.OperatorAdmin
)

// Operator is a person who operates the service in the console.
type Operator struct {
	Email   string    `json:"email"`
	UserID  string    `json:"user_id"`
	Role    string    `json:"role"`
	AddedAt time.Time `json:"added_at"`
	AddedBy string    `json:"added_by"`
	// SecondFactor: without one an operator can do nothing.
	SecondFactor bool `json:"second_factor"`
}

// OperatorEntry is an entry of the operators' log.
type OperatorEntry struct {
	At     time.Time `json:"at"`
	Actor  string    `json:"actor"`
	Action string    `json:"action"`
	Target string    `json:"target"`
	Detail string    `json:"detail"`
}

// operatorEntriesMax are listed.
const operatorEntriesMax = 200

// Operators lists the operators.
func Operators(ctx context.Context, m Maintenance) (list []Operator, err error) {
	list = []Operator{}
	err = m.inService(ctx, func(tx *store.Tx) error {
		all, err := tx.ListOperators(ctx)
		for _, o := range all {
			if err == nil {
				var v Operator
				v, err = operator(ctx, tx, o)
				list = append(list, v)
			}
		}
		return err
	})
	return list, err
}

func operator(ctx context.Context, tx *store.Tx, o store.Operator) (Operator, error) {
	has, err := tx.HasFactor(ctx, o.UserID)
	return Operator{o.Email, o.UserID, o.Role, o.AddedAt, o.AddedBy, has}, err
}

// AddOperator makes a person who has an account an operator, or gives an operator another role.
func AddOperator(ctx context.Context, m Maintenance, email, role string) (v Operator, err error) {
	err = m.inService(ctx, func(tx *store.Tx) error {
		o, err := operators.Add(ctx, onHost(), tx, email, role, m.By)
		if err == nil {
			v, err = operator(ctx, tx, o)
		}
		return err
	})
	return v, refused(err)
}

// RemoveOperator makes somebody no operator, from their next call on.
func RemoveOperator(ctx context.Context, m Maintenance, email string) error {
	return refused(m.inService(ctx, func(tx *store.Tx) error { return operators.Remove(ctx, onHost(), tx, email, m.By) }))
}

// OperatorLog is what operators and commands on the host changed that is in no tenant's audit
// log, the newest first.
func OperatorLog(ctx context.Context, m Maintenance) (list []OperatorEntry, err error) {
	list = []OperatorEntry{}
	err = m.inService(ctx, func(tx *store.Tx) error {
		all, err := tx.ListOperatorEntries(ctx, operatorEntriesMax)
		for _, e := range all {
			list = append(list, OperatorEntry{e.At, e.Actor, e.Action, e.Target, e.Detail})
		}
		return err
	})
	return list, err
}

// inService runs one transaction beside running processes.
func (m Maintenance) inService(ctx context.Context, f func(*store.Tx) error) error {
	s, err := m.database(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.Service(ctx, f), s.Close())
}
