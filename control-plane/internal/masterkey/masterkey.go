// Package masterkey owns the change of the master key: it reseals everything in the
// database with the first key, while control planes run, and reports when an older key is
// no longer needed.
//
// It must not know what the secrets are; package seal lists where they lie. Surprising: an
// old key is reported as removable only after every text column of every table, listed or
// not, was searched for texts sealed with it, and only if no running control plane still
// seals with it.
package masterkey

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

const (
	// leasePrefix and a key's id name the lease of all processes that seal with the key.
	leasePrefix = "master-key/"
	// leaseHolder is one for all of them: they share it.
	leaseHolder = "control"
	// ReportEvery is how often a process reports which key it seals with; a report counts
	// for leaseFor.
	ReportEvery = 10 * time.Second
	leaseFor    = 30 * time.Second

	batchDefault = 100
)

// ReportKey says that this process seals with the first key of the box.
func ReportKey(ctx context.Context, s store.Store, box *seal.Box, now time.Time) error {
	err := s.Service(ctx, func(tx *store.Tx) error {
		_, _, err := tx.TakeLease(ctx, leasePrefix+box.KeyIDs()[0], leaseHolder, now, now.Add(leaseFor))
		return err
	})
	if err != nil {
		return fmt.Errorf("say which master key seals: %w", err)
	}
	return nil
}

// InUseError says that a control plane runs that seals with another key than the first.
type InUseError struct {
	KeyID string
	// Until is when its report expires; it renews it while it runs.
	Until time.Time
}

// Error implements error.
func (e *InUseError) Error() string {
	return fmt.Sprintf("a control plane that encrypts with master key %s was running at %s", e.KeyID, e.Until.Add(-leaseFor).UTC().Format(time.RFC3339))
}

// Report is what was done and what is left. Maps count rows by purpose or by "table.column".
type Report struct {
	// KeyID is the key that seals.
	KeyID    string         `json:"key_id"`
	Resealed map[string]int `json:"resealed"`
	// Unreadable could not be opened though their key was given.
	Unreadable map[string]int `json:"unreadable,omitempty"`
	// Unknown were sealed with keys that were not given.
	Unknown map[string]int `json:"unknown,omitempty"`
	OldKeys []OldKey       `json:"old_keys"`
}

// OldKey is a key that does not seal any more.
type OldKey struct {
	KeyID string `json:"key_id"`
	// Left counts what only this key can open.
	Left      map[string]int `json:"left,omitempty"`
	Removable bool           `json:"removable"`
}

// Change is a change of the master key. It can be interrupted anywhere and run again.
type Change struct {
	Store store.Store
	// Seal holds the new key first and the old ones after it.
	Seal *seal.Box
	Now  func() time.Time
	// Done is called after each transaction with how many rows were resealed; may be
	// nil.
	Done func(rows int)
	// Batch is how many rows go into a transaction; 0: the default.
	Batch int
}

// Run reseals everything sealed with an old key. While a process seals with another key,
// which might not know the new one, it changes nothing and fails with an *InUseError.
func (c Change) Run(ctx context.Context) (Report, error) {
	ids := c.Seal.KeyIDs()
	r := Report{KeyID: ids[0], Resealed: make(map[string]int), Unreadable: make(map[string]int), Unknown: make(map[string]int), OldKeys: []OldKey{}}
	if err := c.checkUse(ctx, ids[0]); err != nil {
		return r, err
	}
	for _, p := range seal.Purposes() {
		for _, old := range ids[1:] {
			if err := c.reseal(ctx, p, old, &r); err != nil {
				return r, fmt.Errorf("seal %s anew: %w", p, err)
			}
		}
	}
	return r, c.lookThrough(ctx, &r)
}

// checkUse also comes before the search for what is left, so that the search finds
// everything that was sealed with an old key.
func (c Change) checkUse(ctx context.Context, first string) error {
	held, err := store.Get(ctx, c.Store.ReadService, func(tx *store.Tx) ([]store.Lease, error) { return tx.HeldLeases(ctx, leasePrefix, c.Now()) })
	if err != nil {
		return fmt.Errorf("ask which master keys seal: %w", err)
	}
	for _, l := range held {
		if id := strings.TrimPrefix(l.Name, leasePrefix); id != first {
			return &InUseError{KeyID: id, Until: l.ExpiresAt}
		}
	}
	return nil
}

// reseal works in batches until one finds nothing to change.
func (c Change) reseal(ctx context.Context, p seal.Purpose, old string, r *Report) error {
	batch := c.Batch
	if batch == 0 {
		batch = batchDefault
	}
	table, columns := p.Place()
	for unreadable := 0; ; {
		var changed, bad int
		err := c.Store.Service(ctx, func(tx *store.Tx) error {
			changed, bad = 0, 0
			rows, err := tx.SealedRows(ctx, table, columns, seal.Prefix(old), batch+unreadable)
			if err != nil {
				return err
			}
			for _, row := range rows {
				again, ok, err := c.again(p, old, row)
				if err != nil {
					return err
				}
				if !ok {
					bad++
				}
				if slices.Equal(again.Values, row.Values) {
					continue
				}
				changed++
				if err := tx.UpdateSealed(ctx, table, columns, again); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		unreadable = bad
		if changed == 0 {
			if bad > 0 {
				r.Unreadable[p.String()] += bad
			}
			return nil
		}
		r.Resealed[p.String()] += changed
		if c.Done != nil {
			c.Done(changed)
		}
	}
}

// again reseals the texts of a row. Equal texts stay equal: a staged client secret is
// the live one if its text is. Not ok: a text could not be opened.
func (c Change) again(p seal.Purpose, old string, row store.SealedRow) (out store.SealedRow, ok bool, _ error) {
	out, ok = store.SealedRow{Row: row.Row, Values: slices.Clone(row.Values)}, true
	fresh := make(map[string]string)
	for i, value := range row.Values {
		for _, text := range seal.Find(value, old) {
			if fresh[text] == "" {
				plain, err := c.Seal.Open(p, text)
				if err != nil {
					ok = false
					continue
				}
				if fresh[text], err = c.Seal.Seal(p, plain); err != nil {
					return out, false, err
				}
			}
			out.Values[i] = strings.ReplaceAll(out.Values[i], text, fresh[text])
		}
	}
	return out, ok, nil
}

// lookThrough decides which old keys can be removed.
func (c Change) lookThrough(ctx context.Context, r *Report) error {
	ids := c.Seal.KeyIDs()
	if err := c.checkUse(ctx, ids[0]); err != nil {
		return err
	}
	return c.Store.ReadService(ctx, func(tx *store.Tx) error {
		r.OldKeys, r.Unknown = r.OldKeys[:0], make(map[string]int)
		all, err := tx.Containing(ctx, seal.Prefix(""))
		if err != nil {
			return err
		}
		for i, id := range ids {
			left, err := tx.Containing(ctx, seal.Prefix(id))
			if err != nil {
				return err
			}
			for column, n := range left {
				all[column] -= n
			}
			if i > 0 {
				r.OldKeys = append(r.OldKeys, OldKey{KeyID: id, Left: left, Removable: len(left) == 0})
			}
		}
		for _, p := range seal.Purposes() {
			table, columns := p.Place()
			for _, column := range columns {
				if name := table + "." + column; all[name] > 0 {
					r.Unknown[name] = all[name]
				}
			}
		}
		return nil
	})
}

// Removable reports whether all old keys can be removed.
func (r Report) Removable() bool {
	return !slices.ContainsFunc(r.OldKeys, func(k OldKey) bool { return !k.Removable })
}

// Total is how many rows were resealed.
func (r Report) Total() (n int) {
	for v := range maps.Values(r.Resealed) {
		n += v
	}
	return n
}
