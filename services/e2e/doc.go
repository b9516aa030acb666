// Package e2e tests the service from outside: the built binary, real processes,
// kills and restarts, the wire as clients speak it. The parts that other tests
// build on are in rig.
//
// It owns no product code and must not import any beside the Go SDK and the cell's
// administration client.
//
// Surprising: whatever a client was told with a 2xx is written down by the test
// and looked for after every kill; what was not answered may have happened or not.
package e2e
