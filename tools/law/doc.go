// Package law holds the rules about the repository as a whole and the tests that
// keep them: which room may import which (Rooms), one Go version and complete
// replaces in every module, rules cited in comments are defined in docs/laws.md,
// tests named there exist, links in documents lead somewhere.
//
// It reads source text and must not import the product. The surprising fact: a
// package that is not in the table fails the build, so that a new room cannot
// appear without a thought about its arrows.
package law
