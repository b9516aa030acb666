// Package listing owns the pages of a list: their size, and the token with which the
// next one continues.
//
// It must not know what is listed. Surprising: a token is valid only for the caller,
// method and filters that it was made for.
package listing

import (
	"context"
	"fmt"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	sizeDefault = 50
	// SizeMax is the most records that one page has.
	SizeMax = 1000
)

// Request is one for a page.
type Request interface {
	GetPageSize() int32
	GetPageToken() string
}

// Listing is a request for one page: by whom, of what, with which filters.
type Listing struct {
	box            *seal.Box
	caller, filter string
	size           int
	after          string
}

// Of reads size and token of a request. method and filter bind the token to this listing.
func Of(ctx context.Context, box *seal.Box, method string, r Request, filter ...any) (Listing, error) {
	if r.GetPageSize() < 0 {
		return Listing{}, fault.InvalidField("page_size", "can't be negative")
	}
	c := access.From(ctx)
	l := Listing{box: box, caller: c.TenantID + " " + c.ID(), filter: method + " " + fmt.Sprintf("%q", filter), size: min(int(r.GetPageSize()), SizeMax)}
	if l.size == 0 {
		l.size = sizeDefault
	}
	var err error
	if l.after, err = box.ParsePageToken(l.caller, l.filter, r.GetPageToken()); err != nil {
		return Listing{}, fault.InvalidField("page_token", "must be the next_page_token of an earlier call by the same caller with the same filters")
	}
	return l, nil
}

// Page asks for one record more than is shown, to see whether there is a next page.
func (l Listing) Page() store.Page { return store.Page{After: l.after, Limit: l.size + 1} }

// Cut returns the records to show and the token of the next page, which continues after
// the key of the last one.
func Cut[T any](l Listing, records []T, key func(T) string) (shown []T, next string) {
	if len(records) <= l.size {
		return records, ""
	}
	records = records[:l.size]
	return records, l.box.PageToken(l.caller, l.filter, key(records[l.size-1]))
}
