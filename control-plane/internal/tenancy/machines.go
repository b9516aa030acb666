package tenancy

import (
	"context"
	"strings"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/access"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// What whoever gives keys by other ways than CreateApiKey asks of them. A Key here says whose
// it would be and how it is narrowed.

// CheckKey says what is wrong with how a key is named and narrowed.
func CheckKey(k store.Key, now time.Time) error {
	k.Kind = cloudv1.KeyKind_KEY_KIND_MANAGEMENT
	return checkKey(k, now)
}

// MayMakeKey refuses a key that may do more than the caller, works from more networks, or
// longer.
func MayMakeKey(ctx context.Context, tx *store.Tx, k store.Key) error { return mayMake(ctx, tx, k) }

// MayMakeToken refuses a token that works longer than the key that makes the call, and any if
// that works from some networks only: a token works from everywhere.
func MayMakeToken(ctx context.Context, tx *store.Tx, ends time.Time) error {
	c := access.From(ctx)
	by, err := callersKey(ctx, tx, c)
	if err != nil {
		return err
	}
	if len(by.CIDRs) > 0 {
		return fault.New(fault.Denied, "KEY_NETWORKS", "this call is made by a key that works from %s only, and the token would work from everywhere; sign in, or use a key without networks",
			strings.Join(by.CIDRs, ", "))
	}
	return withinCallersKey(ctx, tx, c, store.Key{ExpiresAt: ends})
}

// NamespaceIDs resolves names and ids of living namespaces, without repetition.
func NamespaceIDs(ctx context.Context, tx *store.Tx, namesOrIDs []string) ([]string, error) {
	return namespaceIDs(ctx, tx, namesOrIDs)
}

// Networks writes networks in their one form.
func Networks(texts []string) []string { return networks(texts) }
