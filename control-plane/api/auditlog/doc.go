// Package auditlog owns the form of an exported audit log: the lines of a file, the
// canonical text over which entries are hashed and heads are signed, and the check of such
// a file without a server.
//
// It must not know stores, requests or use cases. Surprising: the hash covers every member
// of an entry but hash itself, known or not, and a member that is empty is left out, so that
// a later version may add members without a new form for old entries.
//
// # The chain
//
// The entries of a tenant are numbered 1, 2, 3, …, without gaps, in the order in which
// they were written, which may differ from their times: what a cell records reaches the log
// some seconds later. prev_hash is the hash of the entry before; the first has none.
//
// # The canonical text
//
// The text that is hashed, or signed, is "corvo-audit-1\n" and the object without its
// member hash, or signature, where:
//
//	"text"   is  s<bytes>:<text>, the text in UTF-8 without JSON's escapes
//	12.5     is  n<bytes>:<number as it is written>
//	true, false, null  are  t, f, z
//	[a, b]   is  [ and the values and ]
//	{k: v}   is  { and each name, as a text, with its value, names in the order of their bytes, and }
//
// Hashes are SHA-256 in hex, signatures Ed25519 in base64. Spaces, the order of members and
// the way in which a text is escaped do not count.
package auditlog
