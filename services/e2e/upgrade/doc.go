// Package upgrade runs a cell of two builds: the one of the commit named in the file
// `from`, and the one at hand with one version of the cell more, which the test adds to
// the sources (next_test.go) and which no release has. They take turns as leader under load,
// node by node, back and forth; then the version is raised.
//
// `from` names the oldest commit that a cell may be upgraded from. Name a newer one when
// a release says that older ones need a stop in between.
package upgrade
