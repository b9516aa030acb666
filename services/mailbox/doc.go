// Package mailbox is the mail of a development set-up: it takes whatever is sent to
// it by SMTP, delivers nothing, and shows it to whoever sits at this machine.
//
// It owns the SMTP sink, the last emails in memory, their page and its JSON. It must
// not know who writes the emails or why.
//
// Surprising: its page has a port and a path of its own, and the path holds a secret. It
// answers requests from this machine only, under a local name, and none that a proxy
// carried: its emails hold links that sign somebody in, and a reverse proxy on this
// machine makes everybody look local.
package mailbox
