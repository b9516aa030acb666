package mailbox

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/emersion/go-message"
	"github.com/emersion/go-message/mail"
)

// partsMax bounds what one email may make us take apart.
const partsMax = 32

// parse reads what the page shows of an email. One that is not understood is shown
// as it came: a development mailbox that hides an email is of no use.
func parse(raw []byte) (subject, text, html string) {
	r, err := mail.CreateReader(bytes.NewReader(raw))
	if r == nil || err != nil && !message.IsUnknownCharset(err) {
		return "", printable(string(raw)), ""
	}
	subject, err = r.Header.Subject()
	if err != nil { // Not encoded as it says: shown as it came.
		subject = r.Header.Get("Subject")
	}
	for range partsMax {
		p, err := r.NextPart()
		if p == nil || err != nil && !message.IsUnknownCharset(err) {
			if text == "" && html == "" && !errors.Is(err, io.EOF) {
				text = string(raw)
			}
			break
		}
		inline, ok := p.Header.(*mail.InlineHeader)
		if !ok {
			continue // An attachment.
		}
		body, err := io.ReadAll(p.Body)
		if err != nil { // Cut off: what came is shown.
			body = append(body, "\n[the rest of this email can't be read]"...)
		}
		kind, _, err := inline.ContentType()
		if err != nil {
			kind = "text/plain"
		}
		switch {
		case kind == "text/html" && html == "":
			html = string(body)
		case strings.HasPrefix(kind, "text/") && kind != "text/html" && text == "":
			text = string(body)
		}
	}
	return printable(subject), printable(text), printable(html)
}

// printable is valid UTF-8 with the line ends of this machine.
func printable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
}
