// Package acceptance tests the provider as its users have it: the real Terraform binary
// on one side, a real corvo-cloud process on the other, and at times a network in between
// that loses answers.
//
// It must not know the inside of either. Surprising: there is nothing here but tests.
package acceptance
