package store

import (
	"context"
	"errors"
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
	// ReadService reads across tenants.
	ReadService(ctx context.Context, f func(*Tx) error) error
	// Ping reports whether the database answers.
	Ping(ctx context.Context) error
	Close() error
}

// Page asks for up to Limit records after a key: the name or id of the last one seen.
// No limit means 1001, which is also the most.
type Page struct {
	After string
	Limit int
}
