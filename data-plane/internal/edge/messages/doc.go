// Package messages translates between the messages of corvo.v1 and the use cases: what a
// message asks for becomes an input of package queue, what was done becomes an answer, and
// the fields of a refusal get their proto names.
//
// It owns the names and units of the proto form, for unary calls and stream frames alike.
// It must not know connections, callers or leaders, and it decides nothing: limits are
// checked by queue.
//
// Surprising: a list is never refused for one of its items. An ack that names an
// impossible job has an outcome of its own (shape.Items), because a worker would send a
// refused frame again for ever.
package messages
