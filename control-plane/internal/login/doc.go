// Package login owns signing in by a mailed one-time link, and signing out.
//
// It must not know other ways to sign in, nor cookies' form. StartLogin does the same
// work and gives the same answer whether or not the address is known; only the email
// differs, and that goes to the address's owner.
//
// Surprising: people whom a tenant's identity provider vouches for cannot sign in here.
// The provider may say any address, so their address proves nothing; to this package
// they are unknown.
package login
