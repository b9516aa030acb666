// Package seal owns the secrets that the control plane stores or hands out and must
// recognise later: it encrypts what has to be read again, signs what comes back from a
// caller (page tokens), and makes one-time tokens of which only a digest is kept.
//
// It must not know what the secrets are for beyond a purpose, which separates the keys
// and names the columns where they lie: what was sealed for one purpose can not be opened
// for another, and there is no purpose that is not listed here.
//
// Surprising: several master keys may be given. The first one seals and signs, all of
// them open and verify, so that a key is changed by putting a new one in front and
// taking the old one away when nothing sealed with it is left.
package seal
