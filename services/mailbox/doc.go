// Package mailbox is the mail of a development set-up: it takes whatever is sent to
// it by SMTP, delivers nothing, and shows it to whoever sits at this machine.
//
// It owns the SMTP sink, the last letters in memory, the page /mail and its JSON. It
// must not know who writes the letters or why.
//
// Surprising: though its page stands on the public port, it answers requests from
// this machine only, and only under a local name: its letters hold links that sign
// somebody in.
package mailbox
