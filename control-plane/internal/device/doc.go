// Package device owns signing in programs that have no browser, in the shape of RFC 8628:
// the program shows a short code, a person approves it in a browser where they are signed
// in, and the program, which has been asking, gets a session of its own.
//
// It must not know how people sign in, nor how a program keeps its token. Surprising: no
// link carries the code. A person types what their own program shows, so that somebody
// else's program cannot be approved by a click on a link that came by email.
package device
