// Package records is what a shard's state is made of: one type for each kind of stored
// value, and its bytes. Keys are the business of package keys; what changes a record, and
// when, is that of package state.
//
// Each record has an Encode and a Decode:
//
//	v, err := store.Get(space.Job(ns, keys.Head, id))
//	h, err := records.DecodeHead(v)
//	h.Note(feed.Started, now)
//	txn.Set(space.Job(ns, keys.Head, id), h.Encode())
//
// The bytes begin with a version and are fixed for ever, one form for one value: what is
// there only sometimes stands behind a mask of named parts, and decoding refuses a part
// that is named and empty. Enumerations and masks are append only. A new kind of record
// needs its line in the tests of this room, which cut, lengthen and fuzz every kind.
package records
