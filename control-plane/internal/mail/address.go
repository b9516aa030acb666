package mail

import (
	"errors"
	"net/mail"
	"strings"
)

// Limits of RFC 5321, 4.5.3.1.
const (
	addressMax = 254
	localMax   = 64
	domainMax  = 253
)

// Address gives the one form in which an e-mail address is stored and compared: lower
// case, nothing around it. What it refuses cannot be mailed to, or could be taken for
// somebody else's address.
func Address(text string) (string, error) {
	a := strings.ToLower(strings.Trim(text, " "))
	switch {
	case a == "":
		return "", errors.New("enter an email address, such as ada@example.com")
	case len(a) > addressMax:
		return "", errors.New("can't have more than 254 characters")
	case !isPrintableASCII(a):
		return "", errors.New("can only have ASCII letters, digits and punctuation (write the domain as xn--… if it has other characters)")
	}
	parsed, err := mail.ParseAddress(a)
	if err != nil || parsed.Name != "" || parsed.Address != a {
		return "", errors.New("isn't an email address; it should look like ada@example.com")
	}
	at := strings.LastIndexByte(a, '@')
	if strings.ContainsAny(a[:at], `" (),:;<>[\]@`) || at > localMax || !isDomain(a[at+1:]) {
		return "", errors.New("isn't an email address that we can send to; it should look like ada@example.com")
	}
	return a, nil
}

func isPrintableASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// isDomain wants a name, not an address literal: those reach machines, not people.
func isDomain(d string) bool {
	if d == "" || len(d) > domainMax {
		return false
	}
	for label := range strings.SplitSeq(d, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
				return false
			}
		}
	}
	return true
}
