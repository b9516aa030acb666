// Package audit owns the chain of each tenant's audit log: the number and the hash that an
// entry gets when it is written, the signed heads, the keys that sign them, and the deletion
// of what is older than the retention.
//
// It must not know what entries are about. The form that is hashed, and the check of a file
// without us, is package auditlog of the API.
//
// Entries that were written before there were chains, or by an older control plane beside
// this one, are put into the chain by Chain: in the order of their ids, behind what the
// chain has by then. Their hashes prove that they have not changed since then.
//
// Surprising: an entry locks the end of its tenant's chain until its transaction ends, so
// changes of one tenant follow one another; and the hour's head is signed only after the
// entries since the last one were hashed again, so that a row that was changed in the
// database does not get a signature.
package audit
