package tenancy

import (
	"context"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
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

// NamespaceIDs resolves names and ids of living namespaces, without repetition.
func NamespaceIDs(ctx context.Context, tx *store.Tx, namesOrIDs []string) ([]string, error) {
	return namespaceIDs(ctx, tx, namesOrIDs)
}

// Networks writes networks in their one form.
func Networks(texts []string) []string { return networks(texts) }
