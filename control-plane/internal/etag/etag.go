// Package etag owns the tag of one version of one record, and the refusal of a change
// that was decided on an older version.
//
// It must not know what a record is. Surprising: a tag is a digest, so that nobody counts
// on it being a number.
package etag

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
)

// Mismatch is the reason of the one conflict that is not about the record's state but
// about who came first: clients read again and retry.
const Mismatch = "ETAG_MISMATCH"

// Of gives the tag of a version of the record that the ids name together.
func Of(version int64, ids ...string) string {
	sum := sha256.Sum256([]byte("corvo.etag.v1\x00" + strings.Join(ids, "\x00") + "\x00" + strconv.FormatInt(version, 10)))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// Check refuses a change whose caller has read another version than the present one; what
// is how the refusal names the record. Without a tag there is no condition.
func Check(given, present, what string) error {
	if given == "" || given == present {
		return nil
	}
	return fault.New(fault.Conflict, Mismatch, "someone else changed %s since you loaded it; reload it and try again", what)
}
