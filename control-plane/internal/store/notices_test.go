package store_test

import (
	"context"
	"testing"
	"time"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func TestKeyNotices_AreDueByTheEndAndByWhatWasNoted(t *testing.T) {
	bothKinds(t, func(t *testing.T, s store.Store) {
		twoTenants(t, s)
		const day = 24 * time.Hour
		now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		soon := key("tn_a", "key_1")
		soon.CreatedAt, soon.ExpiresAt = now, now.Add(20*day)
		never, revoked, temporary, renewed := key("tn_a", "key_2"), soon, soon, soon
		revoked.ID, revoked.RevokedAt = "key_3", now
		temporary.ID, temporary.Kind = "key_4", cloudv1.KeyKind_KEY_KIND_TEMPORARY
		renewed.ID, renewed.EndSetAt = "key_5", now.Add(15*day)
		service(t, s, func(ctx context.Context, tx *store.Tx) error {
			due := func(what string, after, till, span, life time.Duration, want ...string) {
				t.Helper()
				got, err := tx.DueKeyNotices(ctx, now.Add(after), now.Add(till), span, life, 9)
				wantErr(t, what, err, nil)
				var ids []string
				for _, k := range got {
					ids = append(ids, k.ID)
				}
				wantEqual(t, what, ids, want)
			}
			for _, k := range []store.Key{soon, never, revoked, temporary, renewed} {
				wantErr(t, "insert", tx.InsertKey(ctx, k), nil)
			}
			due("before", day, 19*day, day, 0)
			due("at the end", 19*day, 20*day, day, day, "key_1", "key_5")
			due("ended", 20*day, 21*day, day, 0)
			due("made or set for less", 13*day, 20*day, 7*day, 7*day, "key_1")
			due("made for just that", 13*day, 20*day, 7*day, 20*day, "key_1")
			due("made for less", 13*day, 20*day, 7*day, 20*day+1)

			wantErr(t, "note", tx.NoteKeyNotice(ctx, soon, 7*day), nil)
			wantErr(t, "note again", tx.NoteKeyNotice(ctx, soon, 7*day), store.ErrNotFound)
			wantErr(t, "note what comes before", tx.NoteKeyNotice(ctx, soon, 14*day), store.ErrNotFound)
			wantErr(t, "note a revoked one", tx.NoteKeyNotice(ctx, revoked, day), store.ErrNotFound)
			due("noted", 13*day, 20*day, 7*day, 7*day)
			due("noted later", 13*day, 20*day, 14*day, 7*day)
			due("the next", 19*day, 20*day, day, 7*day, "key_1")

			got, err := tx.GetKey(ctx, "tn_a", "key_1")
			wantErr(t, "get", err, nil)
			wantEqual(t, "the record", got, soon)
			got.ExpiresAt = now.Add(21 * day)
			wantErr(t, "extend", tx.UpdateKey(ctx, &got), nil)
			wantErr(t, "note an end that it had", tx.NoteKeyNotice(ctx, soon, day), store.ErrNotFound)
			due("with another end", 20*day, 21*day, 7*day, 7*day, "key_1")
			return nil
		})
	})
}
