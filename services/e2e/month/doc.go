// Package month simulates a month of many tenants: three nodes, two proxies and two control
// planes over one PostgreSQL, as real processes, and a small Stripe in the test's own. At the
// end three records must agree: what clients were told, the ledger, and what Stripe has. After
// another month or two, in which nobody works, so must invoices and the ledger's bills, to the
// cent.
//
// All processes share one wall clock, which the test moves an hour at a time; nobody calls at
// that moment, so every call belongs to one hour. What the product waits by the monotonic
// clock is compiled shorter (main_test.go), or an hour would take a minute.
//
// Clients repeat a call until it is answered: an enqueue with its idempotency key, an ack or
// fail with its lease token. What a lost answer to a fetch has leased is found by its job.
// So they know jobs, executions and payload bytes exactly; stored bytes and what proxies count
// are compared between ledger and Stripe alone.
//
// Calls to Stripe lose their answers, are dropped, refused or slow, and Stripe is away for two
// days, also over the end of the month. Its events come twice, late, in another order or never.
// A control plane dies before and after each kind of call to Stripe, and every process at random
// moments, also while an hour closes. A seed, which is printed, decides all draws, but not the
// order in which processes run.
//
// It must not know the product except its command lines and its wire, how invoices are computed
// (bill), and the prices' names at Stripe. Surprising: the month is one of 30 days in the future.
package month
