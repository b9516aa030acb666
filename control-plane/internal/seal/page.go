package seal

import (
	"encoding/binary"
	"errors"
)

// ErrPageToken refuses a page token that was changed, or made for another caller or
// another filter.
var ErrPageToken = errors.New("the page token doesn't belong to this caller and these filters")

const (
	pagePurpose  = "page-token"
	pageMACBytes = 16
	pageTokenMax = 2048
)

// PageToken is the opaque text with which a caller continues a list after a record.
// It is valid only for this caller (tenant and method, say) and filter. Empty for no
// record: there is no next page.
func (b *Box) PageToken(caller, filter, after string) string {
	if after == "" {
		return ""
	}
	sum := b.MAC(pagePurpose, pageText(caller, filter, after))
	return encoding.EncodeToString(append(sum[:pageMACBytes:pageMACBytes], after...))
}

// ParsePageToken returns the record to continue after; empty for the first page.
func (b *Box) ParsePageToken(caller, filter, token string) (after string, err error) {
	if token == "" {
		return "", nil
	}
	if len(token) > pageTokenMax {
		return "", ErrPageToken
	}
	raw, err := decode(token)
	if err != nil || len(raw) <= pageMACBytes {
		return "", ErrPageToken
	}
	after = string(raw[pageMACBytes:])
	if !b.checkShortMAC(pagePurpose, pageText(caller, filter, after), raw[:pageMACBytes]) {
		return "", ErrPageToken
	}
	return after, nil
}

// pageText joins the parts so that no other parts give the same text.
func pageText(parts ...string) []byte {
	var out []byte
	for _, p := range parts {
		out = binary.AppendUvarint(out, uint64(len(p)))
		out = append(out, p...)
	}
	return out
}
