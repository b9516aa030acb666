// Package stripetest is a small Stripe, for tests and for development setups: it keeps what it is
// told and has Stripe's rules for identifiers, idempotency keys, ages and required parameters,
// and pages for checkout, portal and invoices on which no money moves.
//
// A test sets its clock and asks for faults: lost answers, refusals, and being away. A program
// opens one with Open, which keeps its state and sends its events by itself.
//
// It must not know what calls it. Surprising: in a test a page is paid by a call, and an event is
// sent only when the test sends it, so that events can be doubled and come in any order.
package stripetest
