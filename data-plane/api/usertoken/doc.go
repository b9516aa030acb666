// Package usertoken owns the text of the short-lived token with which a person's
// browser calls the data plane: how the control plane signs it and how a proxy
// verifies it offline.
//
// It must not know where keys are stored, nor whether tenant, namespace and user
// still exist: the verifier looks that up in the cell's desired state.
//
// Surprising: it is a JWT of one single form. Everything that the standard leaves
// open (algorithm, type, issuer, audience, lifetime, size, further header fields)
// is fixed here, and a token that differs is refused even if its signature is
// valid.
package usertoken
