// Package cloud is the provider's side of the conversation with Corvo Cloud: the
// control API at the endpoint, and queue settings at the tenant URL. It repeats what
// failed for a moment, waits as long as it is told to wait, and turns every refusal
// into one type with a request id and, where a right is missing, its name.
//
// It must not know Terraform. Surprising: queue settings are spoken of at another
// address than everything else, because they belong to the engine and not to the
// control plane.
package cloud
