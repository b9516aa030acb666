// Package isolation asks everything that one tenant can ask about another. Two
// tenants use the same names for everything; one of them holds an admin key, knows
// every id and every lease token of the other, and may forge headers, hosts and
// paths.
//
// It owns the table of routes (routes_test.go) and the questions made of it. It must
// not know how tenants are kept apart.
//
// A second test tries every credential at every entry point of a whole service, two replicas
// behind two proxies, and keeps what each gets in testdata/matrix.txt; the laws in
// matrix_test.go hold whatever the table says, before and after a restart of every process.
//
// Surprising: the table is held against what the service says of itself, the
// OpenAPI document and the proto descriptors. A new route without a line in the
// table fails the test.
package isolation
