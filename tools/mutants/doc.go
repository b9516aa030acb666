// Command mutants breaks the state machine, the doors of the control plane, the
// arithmetic of rights and the counting of proxies on purpose, one line at a time, and
// runs its tests against each broken version: a mutation that no test notices is
// a rule that nobody checks.
//
// It must not change the tree: the broken file reaches the compiler by an
// overlay. The surprising fact: the table is part of the test. An entry whose old
// text is no longer found exactly once fails the run, so that it is rewritten with
// the code.
package main
