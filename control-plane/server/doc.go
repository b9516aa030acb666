// Package server is the control plane's public package: it builds the store, the use cases,
// the background loops and the HTTP handler, and hands them out as one Server.
//
// Other processes know the control plane through control-plane/api; only programs that
// start one import this package.
package server
