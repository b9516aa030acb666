// Package signup owns the way from an e-mail address and a name to a tenant with a
// namespace and keys: Start mails a link and a code, Confirm makes everything in one
// transaction and shows the keys, once.
//
// It must not know how a cell learns of the tenant (it is handed a wait for that), nor
// how mail leaves.
//
// What a newcomer gets, and why:
//
//   - api_key: kind dp, for the namespace default alone, roles producer, worker and viewer:
//     enqueue, run and look at jobs. Not operator or admin: this key ends up in snippets
//     and in the environment of workers, which never pause or delete a queue.
//   - token: kind mg, role owner, for Terraform and the CLI: it manages the tenant, and
//     queues at the tenant URL.
//   - a session cookie for the browser that confirmed.
//
// Surprising: somebody who confirms by code does not get a session if the address was a
// user's before. A code has six digits; guessing one must not open another's tenants.
// The link proves the mailbox, the code only nearly.
package signup
