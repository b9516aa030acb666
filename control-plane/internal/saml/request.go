package saml

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"time"

	library "github.com/crewjam/saml"
)

// NewRequestID makes the id of a request; it begins with a letter, as XML demands.
func NewRequestID() string {
	var raw [20]byte
	rand.Read(raw[:]) // Never fails: the runtime ends the process instead.
	return "id-" + hex.EncodeToString(raw[:])
}

// Request is the address that asks the provider to sign somebody in (HTTP-Redirect binding).
// It names no format of the subject: the provider's setting decides, and a transient one is
// refused at the return.
func (c Connection) Request(id, relayState string, now time.Time) (string, error) {
	sp, err := c.provider()
	if err != nil {
		return "", err
	}
	create := true
	r := &library.AuthnRequest{
		ID: id, IssueInstant: now.UTC(), Version: "2.0", Destination: c.SSO, AssertionConsumerServiceURL: c.ACS, ProtocolBinding: library.HTTPPostBinding,
		Issuer:       &library.Issuer{Format: "urn:oasis:names:tc:SAML:2.0:nameid-format:entity", Value: c.EntityID},
		NameIDPolicy: &library.NameIDPolicy{AllowCreate: &create},
	}
	to, err := r.Redirect(url.QueryEscape(relayState), sp)
	if err != nil {
		return "", fmt.Errorf("write a SAML request: %w", err)
	}
	return to.String(), nil
}
