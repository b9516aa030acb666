// Package cli owns the corvo command: its tree, its flags, what it prints and
// the number it exits with.
//
// The contract with scripts: stdout carries data and nothing else, stderr
// carries talk; field names in machine output are the API's own, because client
// commands pass the server's JSON through untouched; the exit codes of exit.go
// never change meaning; an output format never changes what a command does.
//
// It must not know how a job is stored or replicated: client commands speak the
// public HTTP API like any stranger, and `corvo server` only fills the
// configuration of package node.
//
// The surprising fact: each verb exists once and hangs in the tree twice, as
// `corvo pause Q` and as `corvo queue pause Q`. Constructors take the word they
// are mounted under, and "{cmd}" in an example becomes the mounted path.
package cli
