// Package auditing owns the use cases around the audit log as a whole: exporting it, and the
// keys that prove it.
//
// It must not know who writes entries. Surprising: an export goes over several calls, and
// its first line, which is signed at the first of them, says what all of them will give.
package auditing
