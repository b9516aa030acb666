package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// A Shape says which members a JSON object of a request has, how each is read and
// how it is documented. Decoder and OpenAPI document come from the same shape, so
// that they can not differ.
type Shape[T any] struct {
	Name   string
	fields []Field[T]
	byName map[string]int
	strict bool // Members that are not known are problems.
}

// Field is one member. Read reports a problem of the value, or "".
type Field[T any] struct {
	Name     string
	Doc      string
	Schema   Schema
	Required bool
	// Reserved marks an option of the contract that does not exist yet: it is refused
	// by name, because ignoring it would do something else than was asked.
	Reserved bool
	Read     func(d *Decoder, path string, value []byte, into *T) string
}

// New makes a shape of its members.
func New[T any](name string, fields ...Field[T]) *Shape[T] {
	s := &Shape[T]{Name: name, fields: fields, byName: make(map[string]int, len(fields))}
	for i, f := range fields {
		s.byName[f.Name] = i
	}
	return s
}

// Fields are the members, in order; nobody changes them.
func (s *Shape[T]) Fields() []Field[T] { return s.fields }

// Field is the member of that name, which there must be.
func (s *Shape[T]) Field(name string) Field[T] { return s.fields[s.byName[name]] }

// Embed is a member of an E that is read into the T around it.
func Embed[T, E any](f Field[E], at func(*T) *E) Field[T] {
	return Field[T]{Name: f.Name, Doc: f.Doc, Schema: f.Schema, Required: f.Required, Read: func(d *Decoder, path string, v []byte, into *T) string {
		return f.Read(d, path, v, at(into))
	}}
}

// Strictly makes members that are not known problems.
func (s *Shape[T]) Strictly() *Shape[T] { s.strict = true; return s }

// Decoder collects every problem of one request.
type Decoder struct{ Problems []fault.Field }

// Problem notes what is wrong with the member at path.
func (d *Decoder) Problem(path, format string, args ...any) {
	if len(d.Problems) >= fault.FieldsMax {
		return
	}
	d.Problems = append(d.Problems, fault.Field{Path: path, Message: fmt.Sprintf(format, args...)})
}

// Also adds what the use case would refuse, under path, to problems of the wire:
// a caller should not have to find them one after the other. A member that is
// named already is not named twice.
func (d *Decoder) Also(path string, fields []fault.Field, spell func(string) string) {
	for _, f := range fields {
		at := spell(Join(path, f.Path))
		if !d.Names(at) {
			d.Problem(at, "%s", f.Message)
		}
	}
}

// Names reports whether there is a problem of the member at path.
func (d *Decoder) Names(path string) bool {
	return slices.ContainsFunc(d.Problems, func(p fault.Field) bool { return p.Path == path })
}

// AsIs spells a path as it is.
func AsIs(path string) string { return path }

// Err is the refusal that names all problems, or nil.
func (d *Decoder) Err() error {
	if len(d.Problems) == 0 {
		return nil
	}
	return fault.InvalidFields(d.Problems)
}

// AndAlso is err, what the use case said, together with the problems of the wire.
func (d *Decoder) AndAlso(err error, spell func(string) string) error {
	f := fault.As(err)
	if err != nil && (f == nil || f.Code != fault.Invalid) {
		return err
	}
	if f != nil {
		d.Also("", f.Fields, spell)
	}
	return d.Err()
}

// ErrOr is err together with payloads that are too large; those alone are TooLarge.
func (d *Decoder) ErrOr(tooLarge []fault.Field) error {
	if len(tooLarge) == 0 {
		return d.Err()
	}
	if len(d.Problems) > 0 {
		d.Also("", tooLarge, AsIs)
		return d.Err()
	}
	return &fault.Error{
		Code: fault.TooLarge, Reason: "PAYLOAD_TOO_LARGE", Message: "a payload is too large", Fields: tooLarge,
	}
}

// Names are the members that may be sent.
func (s *Shape[T]) names() []string {
	var names []string
	for _, f := range s.fields {
		if !f.Reserved {
			names = append(names, f.Name)
		}
	}
	return names
}

// Read fills into from a checked JSON value. Unknown members are passed over unless the
// shape is strict.
func (s *Shape[T]) Read(d *Decoder, path string, value []byte, into *T) {
	if KindOf(value) != '{' {
		d.Problem(pathOr(path, "body"), "must be an object")
		return
	}
	var seen uint64
	Members(value, func(name string, v []byte) {
		i, ok := s.byName[name]
		if !ok && s.strict {
			d.Problem(Join(path, name), "%s", unknownMember(name, s.names()))
		}
		if !ok || IsNull(v) {
			return
		}
		seen |= 1 << i
		f := &s.fields[i]
		if f.Reserved {
			if !isBlank(v) {
				d.Problem(Join(path, name), "is not available yet")
			}
			return
		}
		if msg := f.Read(d, Join(path, name), v, into); msg != "" {
			d.Problem(Join(path, name), "%s", msg)
		}
	})
	for i := range s.fields {
		if s.fields[i].Required && seen&(1<<i) == 0 {
			d.Problem(Join(path, s.fields[i].Name), "is required")
		}
	}
}

// Join is the path of a member of what stands at path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func pathOr(path, otherwise string) string {
	if path == "" {
		return otherwise
	}
	return path
}

// KindOf is the first character of a checked value: { [ " t f n or a digit.
func KindOf(v []byte) byte {
	if len(v) == 0 {
		return 0
	}
	if v[0] == '-' {
		return '0'
	}
	return v[0]
}

// IsNull reports whether a checked value is null.
func IsNull(v []byte) bool { return KindOf(v) == 'n' }

// isBlank is a value that says nothing: clients send it for options that their user
// did not set.
func isBlank(v []byte) bool {
	switch string(bytes.TrimSpace(v)) {
	case "null", `""`, "[]", "{}", "0":
		return true
	}
	return false
}

// Must makes the member required.
func (f Field[T]) Must() Field[T] { f.Required = true; return f }

// Text reads a string.
func Text[T any](name, doc string, at func(*T) *string) Field[T] {
	return Field[T]{Name: name, Doc: doc, Schema: Schema{Type: "string"}, Read: func(_ *Decoder, _ string, v []byte, into *T) string {
		return readText(v, at(into))
	}}
}

// Enum reads a string; the use case decides which values it accepts.
func Enum[T any, W ~string](name, doc string, words []W, at func(*T) *W) Field[T] {
	return Field[T]{Name: name, Doc: doc, Schema: Schema{Type: "string", Enum: TextsOf(words)}, Read: func(_ *Decoder, _ string, v []byte, into *T) string {
		return readText(v, at(into))
	}}
}

func readText[W ~string](v []byte, into *W) string {
	if KindOf(v) != '"' {
		return "must be a string"
	}
	if halfPair(v) {
		return "has half of a surrogate pair, which is not valid text"
	}
	*into = W(Unquote(v))
	return ""
}

// Int reads a whole number.
func Int[T any](name, doc string, at func(*T, int)) Field[T] {
	return Field[T]{Name: name, Doc: doc, Schema: Schema{Type: "integer"}, Read: func(_ *Decoder, _ string, v []byte, into *T) string {
		n, msg := whole(v)
		if msg == "" {
			at(into, n)
		}
		return msg
	}}
}

func whole(v []byte) (int, string) {
	n, err := strconv.Atoi(string(v))
	if err != nil || KindOf(v) == '"' {
		return 0, "must be a whole number"
	}
	return n, ""
}

// Bool reads true or false.
func Bool[T any](name, doc string, at func(*T) *bool) Field[T] {
	return Field[T]{Name: name, Doc: doc, Schema: Schema{Type: "boolean"}, Read: func(_ *Decoder, _ string, v []byte, into *T) string {
		switch KindOf(v) {
		case 't':
			*at(into) = true
		case 'f':
			*at(into) = false
		default:
			return "must be true or false"
		}
		return ""
	}}
}

// RawJSON keeps the JSON as it was sent; it stays part of the request body.
func RawJSON[T any](name, doc string, at func(*T) *json.RawMessage) Field[T] {
	return Field[T]{Name: name, Doc: doc, Read: func(_ *Decoder, _ string, v []byte, into *T) string {
		*at(into) = v
		return ""
	}}
}

// Time reads a time in RFC 3339; "" is how some clients say "not set".
func Time[T any](name, doc string, at func(*T) *time.Time) Field[T] {
	return Field[T]{Name: name, Doc: doc, Schema: Schema{Type: "string", Format: "date-time"}, Read: func(_ *Decoder, _ string, v []byte, into *T) string {
		if KindOf(v) != '"' {
			return "must be a time such as 2026-11-30T12:00:00Z"
		}
		if Unquote(v) == "" {
			return "" // How some clients say "not set".
		}
		t, err := time.Parse(time.RFC3339Nano, Unquote(v))
		if err != nil {
			return "must be a time such as 2026-11-30T12:00:00Z"
		}
		*at(into) = t
		return ""
	}}
}

// Duration reads "1m30s".
func Duration[T any](name, doc string, set func(*T, time.Duration)) Field[T] {
	return Field[T]{Name: name, Doc: doc, Schema: Schema{Type: "string", Examples: []any{"5s", "10m"}}, Read: func(_ *Decoder, _ string, v []byte, into *T) string {
		if KindOf(v) != '"' {
			return `must be a duration such as "5s" or "10m"`
		}
		if Unquote(v) == "" {
			return "" // How some clients say "default".
		}
		d, msg := ParseDuration(Unquote(v))
		if msg == "" {
			set(into, d)
		}
		return msg
	}}
}

// ParseDuration reads "1m30s", or says what is wrong with it.
func ParseDuration(text string) (time.Duration, string) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, `must be a duration such as "5s" or "10m"`
	}
	if d < 0 {
		return 0, "must not be negative"
	}
	return d, ""
}

// Span reads a duration text or a number of seconds.
func Span[T any](name, doc string, set func(*T, time.Duration)) Field[T] {
	s := Schema{OneOf: []Schema{{Type: "string", Examples: []any{"60s"}}, {Type: "number"}}}
	return Field[T]{Name: name, Doc: doc, Schema: s, Read: func(_ *Decoder, _ string, v []byte, into *T) string {
		if KindOf(v) == '"' && Unquote(v) == "" {
			return "" // How some clients say "default".
		}
		d, msg := span(v)
		if msg == "" {
			set(into, d)
		}
		return msg
	}}
}

// spanSecondsMax keeps seconds far from overflowing a Duration; limits are smaller.
const spanSecondsMax = 1e9

func span(v []byte) (time.Duration, string) {
	switch KindOf(v) {
	case '"':
		return ParseDuration(Unquote(v))
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		n, err := strconv.ParseFloat(string(v), 64)
		if err != nil || n < 0 || n > spanSecondsMax {
			return 0, "must be between 0 and 1e9 seconds"
		}
		return time.Duration(n * float64(time.Second)), ""
	}
	return 0, "must be seconds or a duration such as \"60s\""
}

// Millis reads whole milliseconds.
func Millis[T any](name, doc string, set func(*T, time.Duration)) Field[T] {
	return Field[T]{Name: name, Doc: doc, Schema: Schema{Type: "integer"}, Read: func(_ *Decoder, _ string, v []byte, into *T) string {
		n, msg := whole(v)
		switch {
		case msg != "":
			return msg
		case n < 0 || n > spanSecondsMax*1000:
			return "must be between 0 and 1e12 milliseconds"
		}
		set(into, time.Duration(n)*time.Millisecond)
		return ""
	}}
}

// Seconds reads whole seconds.
func Seconds[T any](name, doc string, set func(*T, time.Duration)) Field[T] {
	return Field[T]{Name: name, Doc: doc, Schema: Schema{Type: "integer"}, Read: func(_ *Decoder, _ string, v []byte, into *T) string {
		n, msg := whole(v)
		switch {
		case msg != "":
			return msg
		case n < 0 || n > spanSecondsMax:
			return "must be between 0 and 1e9 seconds"
		}
		set(into, time.Duration(n)*time.Second)
		return ""
	}}
}

// Texts reads a list of strings.
func Texts[T any](name, doc string, at func(*T) *[]string) Field[T] {
	s := Schema{Type: "array", Items: &Schema{Type: "string"}}
	return Field[T]{Name: name, Doc: doc, Schema: s, Read: func(d *Decoder, path string, v []byte, into *T) string {
		if KindOf(v) != '[' {
			return "must be a list of strings"
		}
		i := 0
		Elements(v, func(e []byte) {
			var text string
			if msg := readText(e, &text); msg != "" {
				d.Problem(fmt.Sprintf("%s[%d]", path, i), "%s", msg)
			} else {
				*at(into) = append(*at(into), text)
			}
			i++
		})
		return ""
	}}
}

// Tags reads an object of strings, at most limit of them.
func Tags[T any](name, doc string, limit int, at func(*T) *map[string]string) Field[T] {
	s := Schema{Type: "object", AdditionalProperties: &Schema{Type: "string"}}
	return Field[T]{Name: name, Doc: doc, Schema: s, Read: func(d *Decoder, path string, v []byte, into *T) string {
		if KindOf(v) != '{' {
			return "must be an object with string values"
		}
		n := 0
		Members(v, func(name string, e []byte) {
			if n++; n > limit {
				return // Counted only.
			}
			var text string
			if msg := readText(e, &text); msg != "" {
				d.Problem(Join(path, name), "%s", msg)
			} else {
				AddTag(d, Join(path, name), at(into), name, text)
			}
		})
		if n > limit {
			return fmt.Sprintf("has %d entries; at most %d are allowed", n, limit)
		}
		return ""
	}}
}

// AddTag sets a tag that may have been said before, under another name.
func AddTag(d *Decoder, path string, tags *map[string]string, key, value string) {
	if have, ok := (*tags)[key]; ok && have != value {
		d.Problem(path, "differs from the other value of tag %q", key)
		return
	}
	if *tags == nil {
		*tags = make(map[string]string)
	}
	(*tags)[key] = value
}

// Object reads one object.
func Object[T, E any](name, doc string, of *Shape[E], at func(*T) *E) Field[T] {
	s := Schema{Ref: Ref(of.Name)}
	return Field[T]{Name: name, Doc: doc, Schema: s, Read: func(d *Decoder, path string, v []byte, into *T) string {
		if KindOf(v) != '{' {
			return "must be an object"
		}
		of.Read(d, path, v, at(into))
		return ""
	}}
}

// List reads a list of objects, at most limit of them.
func List[T, E any](name, doc string, limit int, of *Shape[E], at func(*T) *[]E) Field[T] {
	s := Schema{Type: "array", Items: &Schema{Ref: Ref(of.Name)}}
	return Field[T]{Name: name, Doc: doc, Schema: s, Read: func(d *Decoder, path string, v []byte, into *T) string {
		if KindOf(v) != '[' {
			return "must be a list"
		}
		list := make([]E, 0, 8)
		n := 0
		Elements(v, func(e []byte) {
			if n++; n > limit {
				return // Counted only: a million elements must not become a million structs.
			}
			var one E
			of.Read(d, fmt.Sprintf("%s[%d]", path, n-1), e, &one)
			list = append(list, one)
		})
		*at(into) = list
		if n > limit {
			return fmt.Sprintf("has %d items; at most %d are allowed", n, limit)
		}
		return ""
	}}
}

// named is one member of a Map, in the order it was sent.
type Named[E any] struct {
	Name  string
	Value E
	Wrong bool // Some of it could not be read.
}

// Map reads an object of objects, at most limit of them.
func Map[T, E any](name, doc string, limit int, of *Shape[E], at func(*T) *[]Named[E]) Field[T] {
	s := Schema{Type: "object", AdditionalProperties: &Schema{Ref: Ref(of.Name)}}
	return Field[T]{Name: name, Doc: doc, Schema: s, Read: func(d *Decoder, path string, v []byte, into *T) string {
		if KindOf(v) != '{' {
			return "must be an object"
		}
		n := 0
		Members(v, func(member string, e []byte) {
			if n++; n > limit {
				return
			}
			one := Named[E]{Name: member}
			if !IsNull(e) {
				var own Decoder
				of.Read(&own, Join(path, member), e, &one.Value)
				d.Also("", own.Problems, AsIs)
				one.Wrong = len(own.Problems) > 0
			}
			*at(into) = append(*at(into), one)
		})
		if n > limit {
			return fmt.Sprintf("has %d members; at most %d are allowed", n, limit)
		}
		return ""
	}}
}

// Ignored is a member that only answers have, and that may be sent back.
func Ignored[T any](name string) Field[T] {
	return Field[T]{Name: name, Doc: "Set by the server; ignored in a request.", Read: func(*Decoder, string, []byte, *T) string { return "" }}
}

// Reserved is an option of the contract that this server refuses by name.
func Reserved[T any](name string) Field[T] {
	return Field[T]{Name: name, Doc: "Not available yet; refused.", Reserved: true}
}
