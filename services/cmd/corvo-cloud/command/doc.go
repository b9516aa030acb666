// Package command is the command line of corvo-cloud.
//
// It owns flags, signals, exit codes and what is printed. It must not know how a
// node, a proxy or a whole service works: it starts each through its public package.
//
// Surprising: stdout carries only what a script may read (one line when ready, the
// result of a cell command); everything else, logs included, goes to stderr.
package command
