package tenancy

import (
	"context"
	"fmt"

	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	pageSizeDefault = 50
	pageSizeMax     = 1000
)

// listing is one page on its way: of whom, of what, filtered how.
type listing struct {
	caller, filter string
	size           int
	after          string
}

// listing reads size and token. method and filter bind the token to this listing.
func (s *Service) listing(ctx context.Context, size int32, token, method string, filter ...any) (listing, error) {
	if size < 0 {
		return listing{}, fault.InvalidField("page_size", "can't be negative")
	}
	c := access.From(ctx)
	l := listing{caller: c.TenantID + " " + c.ID(), filter: method + " " + fmt.Sprintf("%q", filter), size: min(int(size), pageSizeMax)}
	if l.size == 0 {
		l.size = pageSizeDefault
	}
	var err error
	if l.after, err = s.Seal.ParsePageToken(l.caller, l.filter, token); err != nil {
		return listing{}, fault.InvalidField("page_token", "must be the next_page_token of an earlier call by the same caller with the same filters")
	}
	return l, nil
}

// page asks for one record more than is shown: whether there is a next page.
func (l listing) page() store.Page { return store.Page{After: l.after, Limit: l.size + 1} }

// cut gives what is shown and the token of the next page.
func cut[T any](s *Service, l listing, records []T, key func(T) string) ([]T, string) {
	if len(records) <= l.size {
		return records, ""
	}
	records = records[:l.size]
	return records, s.Seal.PageToken(l.caller, l.filter, key(records[l.size-1]))
}
