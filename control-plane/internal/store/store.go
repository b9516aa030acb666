package store

import (
	"context"
	"errors"
	"iter"
)

// Errors that callers decide by.
var (
	ErrNotFound = errors.New("no such record")
	ErrExists   = errors.New("the record exists")
	// ErrStale: somebody else changed the record since it was read.
	ErrStale = errors.New("the record has changed")
	// ErrReference: the record refers to one that is not there, or not this tenant's.
	ErrReference = errors.New("the record refers to one that doesn't exist")
)

// Store opens transactions. It is safe for concurrent use; f must use its Tx from one
// goroutine and not keep it. A transaction that lost a race is run again, so f must have
// no effect but on its Tx, and must read in it the records that it changes.
type Store interface {
	// Tenant writes in one tenant. Rows of others can be neither seen nor changed.
	Tenant(ctx context.Context, tenantID string, f func(*Tx) error) error
	// ReadTenant reads in one tenant, from one snapshot.
	ReadTenant(ctx context.Context, tenantID string, f func(*Tx) error) error
	// Service writes across tenants: sign-up, sign-in and the service's own loops.
	Service(ctx context.Context, f func(*Tx) error) error
	// Follow is Service for what only goes on behind what others write, and writes rows of its
	// own. It reads one snapshot, and loses only against who has written the same rows
	// meanwhile; against those whose rows it read it would never come to its end.
	Follow(ctx context.Context, f func(*Tx) error) error
	// ReadService reads across tenants.
	ReadService(ctx context.Context, f func(*Tx) error) error
	// Ping reports whether the database answers.
	Ping(ctx context.Context) error
	Close() error
}

// Get reads one thing in a transaction of its own; run opens it: Store.Service, say.
func Get[T any](ctx context.Context, run func(context.Context, func(*Tx) error) error, f func(*Tx) (T, error)) (v T, _ error) {
	err := run(ctx, func(tx *Tx) (err error) {
		v, err = f(tx)
		return err
	})
	return v, err
}

// Page asks for up to Limit records after a key: the name or id of the last one seen.
// No limit means 1001, which is also the most.
type Page struct {
	After string
	Limit int
}

// allPage is how many records All reads at a time.
const allPage = 500

// All walks a listing to its end; key is what its pages go by.
func All[T any](list func(Page) ([]T, error), key func(T) string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for p := (Page{Limit: allPage}); ; {
			page, err := list(p)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
			}
			if len(page) < allPage {
				return
			}
			p.After = key(page[len(page)-1])
		}
	}
}

// AllTenants walks ListTenants.
func (t *Tx) AllTenants(ctx context.Context) iter.Seq2[Tenant, error] {
	return All(func(p Page) ([]Tenant, error) { return t.ListTenants(ctx, p) }, func(v Tenant) string { return v.ID })
}

// AllNamespaces walks ListNamespaces.
func (t *Tx) AllNamespaces(ctx context.Context, tenantID string) iter.Seq2[Namespace, error] {
	return All(func(p Page) ([]Namespace, error) { return t.ListNamespaces(ctx, tenantID, p) }, func(v Namespace) string { return v.Name })
}

// AllKeys walks ListKeys.
func (t *Tx) AllKeys(ctx context.Context, tenantID string, revoked bool) iter.Seq2[Key, error] {
	return All(func(p Page) ([]Key, error) { return t.ListKeys(ctx, tenantID, revoked, p) }, func(v Key) string { return v.ID })
}
