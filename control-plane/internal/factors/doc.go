// Package factors owns people's second factors: passkeys, authenticator apps, recovery
// codes; setting them up, and checking one that is shown.
//
// It must not know how a sign-in goes on after that (it is handed in), nor which methods ask
// for a factor (the gate's). Surprising: a session that an invitation opened cannot set one
// up. The invitation's link proves no address, and a factor would lock its owner out.
package factors
