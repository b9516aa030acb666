// Package shape reads what clients send, in JSON and protobuf, and describes it.
//
// A Shape is an object of a request: which members it has, how each is read into the input
// of a use case, and what the OpenAPI document says of it. A request is declared once and
// read like this:
//
//	var moveShape = shape.New("MoveRequest",
//		shape.Text("queue", "Target queue.", func(in *string) *string { return in }).Must(),
//	).Strictly()
//
//	var d shape.Decoder
//	var to string
//	moveShape.Read(&d, "", body, &to) // body has passed Check.
//	return d.Err()                    // Every problem at once, or nil.
//
// It owns the JSON grammar, which is stricter than encoding/json's (Check), the counting
// codecs of Connect, and what is said of members that are not known. It must not know
// routes, callers or what a use case allows: it reports what can not be read.
//
// Surprising: protojson drops the members that a message does not have, so that those of
// an enqueue are kept in the message under a field number that the format gives to nobody.
package shape
