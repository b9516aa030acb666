// Package stripetest is a small Stripe for tests: it keeps what it is told and has Stripe's
// rules for identifiers, idempotency keys, ages and required parameters, a clock that the test
// sets, and the faults that a test asks for: lost answers, refusals, and being away.
//
// It must not know what calls it. Surprising: a page is paid by a call of the test, and an
// event is sent only when the test sends it, so that events can be doubled and come in any
// order.
package stripetest
