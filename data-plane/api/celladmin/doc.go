// Package celladmin is the client of a cell's administration: it writes tenants,
// namespaces and keys into the cell's desired state and moves nodes and leaders.
//
// It owns the signed connection to whichever node answers, the making of records
// with their ids, and waiting for the proxies to have them. It must not know jobs, nor how a cell keeps its state.
//
// Surprising: a read asks every node and takes the newest answer, because any one
// of them may be a moment behind what another has just acknowledged.
package celladmin
