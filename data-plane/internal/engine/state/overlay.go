package state

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The payloads of follow-up jobs are written by apply, and so by this file alone: what a
// library writes and takes for JSON may change with the program.

// member is one member of an object that a follow-up job's payload begins with.
type member struct {
	name  string // Letters and underscores.
	value []byte // JSON.
}

func textMember(name, text string) member { return member{name, appendText(nil, text)} }

func countMember(name string, n uint64) member {
	return member{name, strconv.AppendUint(nil, n, 10)}
}

// overlay is the payload of a follow-up job: base, then the members of own, which win.
// An own payload that is no object stands under "payload". The order of members is
// theirs, so that every replica writes the same bytes.
func overlay(base []member, own []byte) []byte {
	mine, object := memberNames(own)
	if len(own) > 0 && !object {
		base = append(base, member{"payload", own})
	}
	out := []byte{'{'}
	for _, m := range base {
		if slices.Contains(mine, m.name) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, m.name...)
		out = append(out, '"', ':')
		out = append(out, m.value...)
	}
	if len(mine) > 0 {
		if len(out) > 1 {
			out = append(out, ',')
		}
		return append(out, inside(own)...)
	}
	return append(out, '}')
}

// inside is an object's text after its opening brace.
func inside(object []byte) []byte {
	return object[slices.Index(object, '{')+1:]
}

// appendText writes a string of JSON that is also safe inside HTML.
func appendText(out []byte, text string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD"): // Not UTF-8.
			out = append(out, `\ufffd`...)
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\b':
			out = append(out, `\b`...)
		case r == '\f':
			out = append(out, `\f`...)
		case r == '\n':
			out = append(out, `\n`...)
		case r == '\r':
			out = append(out, `\r`...)
		case r == '\t':
			out = append(out, `\t`...)
		case r < ' ' || r == '<' || r == '>' || r == '&':
			out = append(out, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		case r == '\u2028' || r == '\u2029':
			out = append(out, `\u202`...)
			out = append(out, hex[r&15])
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return append(out, '"')
}

// memberNames lists the names in an object, and reports whether the text is one. A
// payload is JSON, as whoever proposed it has checked; only what may be wrong between
// the members is found here.
func memberNames(text []byte) (names []string, object bool) {
	s := jsonText{text}
	if !s.take('{') {
		return nil, false
	}
	if s.take('}') {
		return nil, s.ended()
	}
	for {
		name, ok := s.text()
		if !ok || !s.take(':') || !s.skipValue() {
			return nil, false
		}
		names = append(names, name)
		if s.take(',') {
			continue
		}
		if !s.take('}') || !s.ended() {
			return nil, false
		}
		return names, true
	}
}

// jsonText is JSON that is still to be read.
type jsonText struct{ rest []byte }

func (s *jsonText) space() {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\t' || s.rest[0] == '\n' || s.rest[0] == '\r') {
		s.rest = s.rest[1:]
	}
}

func (s *jsonText) ended() bool {
	s.space()
	return len(s.rest) == 0
}

func (s *jsonText) take(c byte) bool {
	s.space()
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// text reads a string. An escape stands for one character, or for half of one, which
// is nothing that a name of ours has.
func (s *jsonText) text() (string, bool) {
	if !s.take('"') {
		return "", false
	}
	var out []byte
	for len(s.rest) > 0 {
		c := s.rest[0]
		s.rest = s.rest[1:]
		switch {
		case c == '"':
			return string(out), true
		case c != '\\':
			out = append(out, c)
		default:
			r, ok := s.escaped()
			if !ok {
				return "", false
			}
			out = utf8.AppendRune(out, r)
		}
	}
	return "", false
}

// escaped reads what follows a backslash.
func (s *jsonText) escaped() (rune, bool) {
	if len(s.rest) == 0 {
		return 0, false
	}
	c := s.rest[0]
	s.rest = s.rest[1:]
	switch c {
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'u':
		if len(s.rest) < 4 {
			return 0, false
		}
		n, err := strconv.ParseUint(string(s.rest[:4]), 16, 16)
		s.rest = s.rest[4:]
		return rune(n), err == nil
	default:
		return rune(c), c == '"' || c == '\\' || c == '/'
	}
}

// skipValue passes over a value, up to what ends it.
func (s *jsonText) skipValue() bool {
	s.space()
	before := len(s.rest)
	for depth := 0; len(s.rest) > 0; {
		switch c := s.rest[0]; {
		case c == '"':
			if _, ok := s.text(); !ok {
				return false
			}
			continue
		case c == '{' || c == '[':
			depth++
		case depth == 0 && (c == ',' || c == '}' || c == ']'):
			return len(s.rest) < before
		case c == '}' || c == ']':
			depth--
		}
		s.rest = s.rest[1:]
	}
	return false
}
