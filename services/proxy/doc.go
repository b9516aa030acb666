// Package proxy is the entry point of a cell: it takes what clients send to a
// tenant URL, checks the API key from memory, and carries the request to a node.
//
// It owns the public listener, the copy of the cell's desired state (tenants,
// namespaces, keys) with its file on disk, and the choice of a node. It must not
// know jobs, queues or leaders: any node is right, since nodes carry a request on
// to the leader. It never talks to a control plane.
//
// Surprising: a key that is known keeps working for 30 days without a word from a node, while
// one that is unknown is answered 503 instead of 401 as soon as the state is older
// than a minute, because the key may have been made since. See DESIGN.md.
package proxy
