// Package listing owns the pages of a list: their size, and the token with which the
// next one continues.
//
// It must not know what is listed. Surprising: a token is valid only for the caller,
// method and filters that it was made for.
package listing

import (
	"cmp"
	"context"
	"fmt"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/kit"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	sizeDefault = 50
	sizeMax     = 1000
)

// Request is one for a page.
type Request interface {
	GetPageSize() int32
	GetPageToken() string
}

// Of is one listing: its records, and how they are shown.
type Of[R, M any] struct {
	// Method and Filter bind the tokens of its pages.
	Method string
	Filter []any
	// Across reads across tenants, for operators.
	Across bool
	// Page reads records of the caller's tenant, in the order of their keys.
	Page func(tx *store.Tx, tenantID string, p store.Page) ([]R, error)
	Key  func(R) string
	Show func(R) M
}

// Read answers a request for a page; next is the token of the page after it.
func (o Of[R, M]) Read(ctx context.Context, k kit.Kit, r Request) (shown []M, next string, err error) {
	if r.GetPageSize() < 0 {
		return nil, "", fault.InvalidField("page_size", "can't be negative")
	}
	c := access.From(ctx)
	caller, filter := c.TenantID+" "+c.ID(), o.Method+" "+fmt.Sprintf("%q", o.Filter)
	after, err := k.Seal.ParsePageToken(caller, filter, r.GetPageToken())
	if err != nil {
		return nil, "", fault.InvalidField("page_token", "must be the next_page_token of an earlier call by the same caller with the same filters")
	}
	size := min(int(r.GetPageSize()), sizeMax)
	size = cmp.Or(size, sizeDefault)
	run := k.Store.ReadService
	if !o.Across {
		run = func(ctx context.Context, f func(*store.Tx) error) error {
			return k.Store.ReadTenant(ctx, c.TenantID, f)
		}
	}
	records, err := store.Get(ctx, run, func(tx *store.Tx) ([]R, error) {
		return o.Page(tx, c.TenantID, store.Page{After: after, Limit: size + 1}) // One more shows whether there is a next page.
	})
	if len(records) > size {
		records = records[:size]
		next = k.Seal.PageToken(caller, filter, o.Key(records[size-1]))
	}
	for _, record := range records {
		shown = append(shown, o.Show(record))
	}
	return shown, next, err
}
