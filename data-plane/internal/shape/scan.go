package shape

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonDepthMax bounds nesting, so that no later reader can be driven into deep
// recursion; real payloads stay far below.
const jsonDepthMax = 128

// manyMembers is the object size from which duplicate names are looked up in a
// map instead of by comparing.
const manyMembers = 16

var errJSONEnd = errors.New("unexpected end of JSON")

// Check reports whether b is exactly one JSON value that every reader
// understands the same way: valid UTF-8, no duplicate member names, bounded depth.
// encoding/json lets all three pass.
func Check(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("JSON is not valid UTF-8")
	}
	s := scanner{b: b}
	s.space()
	if err := s.value(0); err != nil {
		return fmt.Errorf("%w at byte %d", err, s.i)
	}
	s.space()
	if s.i != len(b) {
		return fmt.Errorf("unexpected %q after the JSON value at byte %d", b[s.i], s.i)
	}
	return nil
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

func (s *scanner) value(depth int) error {
	if s.i >= len(s.b) {
		return errJSONEnd
	}
	if depth > jsonDepthMax {
		return fmt.Errorf("JSON is nested deeper than %d", jsonDepthMax)
	}
	switch c := s.b[s.i]; c {
	case '{':
		return s.object(depth)
	case '[':
		return s.array(depth)
	case '"':
		return s.str()
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return s.number()
		}
		return fmt.Errorf("unexpected %q", c)
	}
}

func (s *scanner) word(w string) error {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return fmt.Errorf("unexpected %q", s.b[s.i])
	}
	s.i += len(w)
	return nil
}

func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	return s.i > start
}

func (s *scanner) at(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }

func (s *scanner) number() error {
	if s.at('-') {
		s.i++
	}
	if s.at('0') {
		s.i++
	} else if !s.digits() {
		return errors.New("malformed number")
	}
	if s.at('.') {
		s.i++
		if !s.digits() {
			return errors.New("malformed number")
		}
	}
	if s.at('e') || s.at('E') {
		s.i++
		if s.at('+') || s.at('-') {
			s.i++
		}
		if !s.digits() {
			return errors.New("malformed number")
		}
	}
	return nil
}

func (s *scanner) str() error {
	s.i++ // The opening quote.
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return nil
		case c < 0x20:
			return fmt.Errorf("control character %#x in a string", c)
		case c == '\\':
			if err := s.escape(); err != nil {
				return err
			}
		default:
			s.i++
		}
	}
	return errJSONEnd
}

func (s *scanner) escape() error {
	s.i++
	if s.i >= len(s.b) {
		return errJSONEnd
	}
	c := s.b[s.i]
	s.i++
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return nil
	case 'u':
		if len(s.b)-s.i < 4 {
			return errJSONEnd
		}
		if _, err := strconv.ParseUint(string(s.b[s.i:s.i+4]), 16, 16); err != nil {
			return errors.New("malformed \\u escape")
		}
		s.i += 4
		return nil
	}
	return fmt.Errorf("unknown escape \\%c", c)
}

func (s *scanner) array(depth int) error {
	s.i++
	s.space()
	if s.at(']') {
		s.i++
		return nil
	}
	for {
		s.space()
		if err := s.value(depth + 1); err != nil {
			return err
		}
		s.space()
		switch {
		case s.at(','):
			s.i++
		case s.at(']'):
			s.i++
			return nil
		case s.i >= len(s.b):
			return errJSONEnd
		default:
			return fmt.Errorf("unexpected %q in an array", s.b[s.i])
		}
	}
}

func (s *scanner) object(depth int) error {
	s.i++
	s.space()
	if s.at('}') {
		s.i++
		return nil
	}
	var names nameSet
	for {
		s.space()
		if !s.at('"') {
			if s.i >= len(s.b) {
				return errJSONEnd
			}
			return fmt.Errorf("unexpected %q, want a member name", s.b[s.i])
		}
		start := s.i
		if err := s.str(); err != nil {
			return err
		}
		if halfPair(s.b[start:s.i]) {
			return errors.New("half of a surrogate pair in a member name")
		}
		if name := Unquote(s.b[start:s.i]); !names.add(name) {
			return fmt.Errorf("duplicate member %q", name)
		}
		s.space()
		if !s.at(':') {
			return errors.New("want ':' after a member name")
		}
		s.i++
		s.space()
		if err := s.value(depth + 1); err != nil {
			return err
		}
		s.space()
		switch {
		case s.at(','):
			s.i++
		case s.at('}'):
			s.i++
			return nil
		case s.i >= len(s.b):
			return errJSONEnd
		default:
			return fmt.Errorf("unexpected %q in an object", s.b[s.i])
		}
	}
}

// nameSet finds duplicates without allocating for the small objects that nearly
// all are.
type nameSet struct {
	few  [manyMembers]string
	n    int
	many map[string]struct{}
}

func (s *nameSet) add(name string) bool {
	if s.many != nil {
		_, dup := s.many[name]
		s.many[name] = struct{}{}
		return !dup
	}
	for _, have := range s.few[:s.n] {
		if have == name {
			return false
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = name
		s.n++
		return true
	}
	s.many = make(map[string]struct{}, 2*manyMembers)
	for _, have := range s.few {
		s.many[have] = struct{}{}
	}
	s.many[name] = struct{}{}
	return true
}

// Unquote is the text of a JSON string that Check has accepted. Like
// encoding/json it reads a lone surrogate as U+FFFD.
func Unquote(q []byte) string {
	q = q[1 : len(q)-1]
	i := 0
	for i < len(q) && q[i] != '\\' {
		i++
	}
	if i == len(q) {
		return string(q)
	}
	out := append(make([]byte, 0, len(q)), q[:i]...)
	for i < len(q) {
		if q[i] != '\\' {
			out = append(out, q[i])
			i++
			continue
		}
		i++
		switch c := q[i]; c {
		case 'u':
			r, n := unquoteRune(q[i-1:])
			out = utf8.AppendRune(out, r)
			i += n - 1
			continue
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		default:
			out = append(out, c)
		}
		i++
	}
	return string(out)
}

// HalfPair reports whether a JSON string that Check has accepted escapes half of a
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
		_ = s.str() // Check has accepted it.
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
		_ = s.str() // Check has accepted it.
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
			_ = s.str() // Check has accepted it.
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
