package shape

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonDepthMax bounds nesting, so that no later reader can be driven into deep
// recursion; real payloads stay far below.
const jsonDepthMax = 128

// decoders are the library's readers.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// Check reports whether b is exactly one JSON value that every reader understands the
// same way: valid UTF-8, no duplicate member names, bounded depth. encoding/json lets all
// three pass; the library knows the grammar and the names.
func Check(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("JSON is not valid UTF-8")
	}
	if i := tooDeep(b); i >= 0 {
		return fmt.Errorf("JSON is nested deeper than %d at byte %d", jsonDepthMax, i)
	}
	d, _ := decoders.Get().(*jsontext.Decoder)
	defer func() {
		d.Reset(bytes.NewReader(nil)) // Not to keep the body.
		decoders.Put(d)
	}()
	// Half of a surrogate pair is no UTF-8 to the library; a payload may have it.
	d.Reset(bytes.NewBuffer(b), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadValue(); err != nil {
		return grammar(err, len(b))
	}
	s := scanner{b: b, i: int(d.InputOffset())}
	if s.space(); s.i != len(b) {
		return fmt.Errorf("unexpected %q after the JSON value at byte %d", b[s.i], s.i)
	}
	if i := halfName(b); i >= 0 {
		return fmt.Errorf("half of a surrogate pair in a member name at byte %d", i)
	}
	return nil
}

// grammar words what the library found.
func grammar(err error, end int) error {
	var wrong *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("unexpected end of JSON at byte %d", end)
	case !errors.As(err, &wrong):
		return err
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("duplicate member %q at byte %d", wrong.JSONPointer.LastToken(), wrong.ByteOffset)
	}
	return fmt.Errorf("%w at byte %d", wrong.Err, wrong.ByteOffset)
}

// tooDeep is where a value stands in more than jsonDepthMax others, or -1.
func tooDeep(b []byte) int {
	if bytes.Count(b, []byte{'['})+bytes.Count(b, []byte{'{'}) <= jsonDepthMax {
		return -1
	}
	depth := 0
	for s := (scanner{b: b}); ; s.i++ {
		s.space()
		if s.i >= len(b) {
			return -1
		}
		switch c := b[s.i]; {
		case c == '}' || c == ']':
			depth--
		case depth > jsonDepthMax:
			return s.i
		case c == '{' || c == '[':
			depth++
		case c == '"':
			s.str()
			s.i--
		}
	}
}

// halfName is where a member's name escapes half of a surrogate pair, or -1.
func halfName(b []byte) int {
	if !bytes.Contains(b, []byte(`\u`)) {
		return -1
	}
	for s := (scanner{b: b}); s.i < len(b); s.i++ {
		if b[s.i] != '"' {
			continue
		}
		start := s.i
		s.str()
		end := s.i
		if s.space(); s.at(':') && halfPair(b[start:end]) {
			return start
		}
		s.i = end - 1
	}
	return -1
}

type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) at(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }

// str moves behind a string, or to the end where it has none.
func (s *scanner) str() {
	for s.i++; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '\\':
			s.i++
		case '"':
			s.i++
			return
		}
	}
	s.i = len(s.b)
}

// Unquote is the text of a JSON string that Check has accepted. Like encoding/json it
// reads a lone surrogate as U+FFFD.
func Unquote(q []byte) string {
	if plain := q[1 : len(q)-1]; bytes.IndexByte(plain, '\\') < 0 {
		return string(plain)
	}
	text, _ := jsontext.AppendUnquote(nil, q) // A lone surrogate is its only complaint.
	return string(text)
}

// halfPair reports whether a JSON string that Check has accepted escapes half of a
// surrogate pair: no text has that, and what it would be read as is not what was sent.
func halfPair(q []byte) bool {
	for i := 0; i+1 < len(q); i++ {
		if q[i] != '\\' {
			continue
		}
		if q[i+1] == 'u' {
			r, n := unquoteRune(q[i:])
			if r == utf8.RuneError && n == 6 && hex4(q[i+2:]) != utf8.RuneError {
				return true
			}
			i += n - 2
		}
		i++
	}
	return false
}

// unquoteRune reads \uXXXX, or a surrogate pair of two, at the start of q and
// tells how many bytes it took.
func unquoteRune(q []byte) (rune, int) {
	r := hex4(q[2:])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(q) >= 12 && q[6] == '\\' && q[7] == 'u' {
		if pair := utf16.DecodeRune(r, hex4(q[8:])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return utf8.RuneError, 6
}

func hex4(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 32) // Check saw four digits.
	return rune(n)
}

// Members calls f for each member of a checked object, in order.
func Members(object []byte, f func(name string, value []byte)) {
	s := scanner{b: object}
	s.space()
	s.i++
	for {
		s.space()
		if s.at('}') {
			return
		}
		start := s.i
		s.str()
		name := Unquote(s.b[start:s.i])
		s.space()
		s.i++ // ':'
		s.space()
		start = s.i
		s.skip()
		f(name, s.b[start:s.i])
		s.space()
		if s.at(',') {
			s.i++
		}
	}
}

// Elements calls f for each element of a checked array, in order.
func Elements(array []byte, f func(value []byte)) {
	s := scanner{b: array}
	s.space()
	s.i++
	for {
		s.space()
		if s.at(']') {
			return
		}
		start := s.i
		s.skip()
		f(s.b[start:s.i])
		s.space()
		if s.at(',') {
			s.i++
		}
	}
}

// skip moves over one checked value.
func (s *scanner) skip() {
	switch s.b[s.i] {
	case '"':
		s.str()
	case '{', '[':
		s.skipNested()
	default:
		for s.i < len(s.b) && !endsScalar(s.b[s.i]) {
			s.i++
		}
	}
}

func (s *scanner) skipNested() {
	depth := 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			s.str()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		s.i++
		if depth == 0 {
			return
		}
	}
}

func endsScalar(c byte) bool {
	return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\t' || c == '\n' || c == '\r'
}
