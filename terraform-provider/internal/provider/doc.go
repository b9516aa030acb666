// Package provider is Corvo Cloud in Terraform's words: the provider block, resources,
// the ephemeral secret and the data source.
//
// It must not know how a call travels (that is cloud) and keeps no secret: of a key only
// its id and digest leave the machine, and neither plan nor state ever holds more.
//
// Surprising: a wait that ends too early is a warning and not an error. Terraform marks
// a resource whose creation failed as tainted and would destroy it next time; one that
// is merely not ready yet is kept with status "pending", and the next apply waits on.
package provider
