// Package usertoken owns the text of the short-lived token with which a person's
// browser calls the data plane: how the control plane signs it and how a proxy
// reads it without asking anybody.
//
// It must not know where keys are stored, nor whether tenant, namespace and user
// still exist: whoever verifies asks that of the cell's desired state.
//
// Surprising: it is a JWT of one single form. Everything that the standard leaves
// open (algorithm, type, issuer, audience, lifetime, size, further header fields)
// is fixed here, and a token that differs is refused however well it is signed.
package usertoken
