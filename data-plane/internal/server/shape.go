package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
	"github.com/corvo-cloud/corvo/data-plane/internal/queue"
)

// A shape says which members a JSON object of a request has, how each is read and
// how it is documented. Decoder and OpenAPI document come from the same shape, so
// that they can not differ.
type shape[T any] struct {
	name   string
	fields []field[T]
	byName map[string]int
	strict bool // Members that are not known are problems.
}

// field is one member. read reports a problem of the value, or "".
type field[T any] struct {
	name     string
	doc      string
	schema   schema
	required bool
	// later marks an option of the contract that does not exist yet: it is refused
	// by name, because ignoring it would do something else than was asked.
	later bool
	read  func(d *decoder, path string, value []byte, into *T) string
}

func newShape[T any](name string, fields ...field[T]) *shape[T] {
	s := &shape[T]{name: name, fields: fields, byName: make(map[string]int, len(fields))}
	for i, f := range fields {
		s.byName[f.name] = i
	}
	return s
}

// strictly makes members that are not known problems.
func (s *shape[T]) strictly() *shape[T] { s.strict = true; return s }

// decoder collects every problem of one request.
type decoder struct{ problems []fault.Field }

func (d *decoder) problem(path, format string, args ...any) {
	if len(d.problems) >= fault.FieldsMax {
		return
	}
	d.problems = append(d.problems, fault.Field{Path: path, Message: fmt.Sprintf(format, args...)})
}

// also adds what the use case would refuse, under path, to problems of the wire:
// a caller should not have to find them one after the other. A member that is
// named already is not named twice.
func (d *decoder) also(path string, fields []fault.Field, spell func(string) string) {
	for _, f := range fields {
		at := spell(join(path, f.Path))
		if !d.names(at) {
			d.problem(at, "%s", f.Message)
		}
	}
}

// names reports whether there is a problem of the member at path.
func (d *decoder) names(path string) bool {
	return slices.ContainsFunc(d.problems, func(p fault.Field) bool { return p.Path == path })
}

func asIs(path string) string { return path }

// err is the refusal that names all problems, or nil.
func (d *decoder) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	return fault.InvalidFields(d.problems)
}

// andAlso is err, what the use case said, together with the problems of the wire.
func (d *decoder) andAlso(err error, spell func(string) string) error {
	f := fault.As(err)
	if err != nil && (f == nil || f.Code != fault.Invalid) {
		return err
	}
	if f != nil {
		d.also("", f.Fields, spell)
	}
	return d.err()
}

// errOr is err together with payloads that are too large; those alone are TooLarge.
func (d *decoder) errOr(tooLarge []fault.Field) error {
	if len(tooLarge) == 0 {
		return d.err()
	}
	if len(d.problems) > 0 {
		d.also("", tooLarge, asIs)
		return d.err()
	}
	return &fault.Error{
		Code: fault.TooLarge, Reason: "PAYLOAD_TOO_LARGE", Message: "a payload is too large", Fields: tooLarge,
	}
}

// names are the members that may be sent.
func (s *shape[T]) names() []string {
	var names []string
	for _, f := range s.fields {
		if !f.later {
			names = append(names, f.name)
		}
	}
	return names
}

// read fills into from a checked JSON value. Unknown members are passed over unless the
// shape is strict.
func (s *shape[T]) read(d *decoder, path string, value []byte, into *T) {
	if kindOf(value) != '{' {
		d.problem(pathOr(path, "body"), "must be an object")
		return
	}
	var seen uint64
	members(value, func(name string, v []byte) {
		i, ok := s.byName[name]
		if !ok && s.strict {
			d.problem(join(path, name), "%s", unknownMember(name, s.names()))
		}
		if !ok || isNull(v) {
			return
		}
		seen |= 1 << i
		f := &s.fields[i]
		if f.later {
			if !isBlank(v) {
				d.problem(join(path, name), "is not available yet")
			}
			return
		}
		if msg := f.read(d, join(path, name), v, into); msg != "" {
			d.problem(join(path, name), "%s", msg)
		}
	})
	for i := range s.fields {
		if s.fields[i].required && seen&(1<<i) == 0 {
			d.problem(join(path, s.fields[i].name), "is required")
		}
	}
}

func join(path, name string) string {
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

// kindOf is the first character of a checked value: { [ " t f n or a digit.
func kindOf(v []byte) byte {
	if len(v) == 0 {
		return 0
	}
	if v[0] == '-' {
		return '0'
	}
	return v[0]
}

func isNull(v []byte) bool { return kindOf(v) == 'n' }

// isBlank is a value that says nothing: clients send it for options that their user
// did not set.
func isBlank(v []byte) bool {
	switch string(bytes.TrimSpace(v)) {
	case "null", `""`, "[]", "{}", "0":
		return true
	}
	return false
}

func (f field[T]) must() field[T] { f.required = true; return f }

func textField[T any](name, doc string, at func(*T) *string) field[T] {
	return field[T]{name: name, doc: doc, schema: schema{Type: "string"}, read: func(_ *decoder, _ string, v []byte, into *T) string {
		if kindOf(v) != '"' {
			return "must be a string"
		}
		if halfPair(v) {
			return halfPairMessage
		}
		*at(into) = unquote(v)
		return ""
	}}
}

// wordField reads a text; which words mean something is the use case's to say.
func wordField[T any, W ~string](name, doc string, words []W, at func(*T) *string) field[T] {
	f := textField(name, doc, at)
	f.schema.Enum = textsOf(words)
	return f
}

const halfPairMessage = "has half of a surrogate pair, which is not valid text"

func wholeField[T any](name, doc string, at func(*T, int)) field[T] {
	return field[T]{name: name, doc: doc, schema: schema{Type: "integer"}, read: func(_ *decoder, _ string, v []byte, into *T) string {
		n, msg := whole(v)
		if msg == "" {
			at(into, n)
		}
		return msg
	}}
}

func whole(v []byte) (int, string) {
	n, err := strconv.Atoi(string(v))
	if err != nil || kindOf(v) == '"' {
		return 0, "must be a whole number"
	}
	return n, ""
}

func boolField[T any](name, doc string, at func(*T) *bool) field[T] {
	return field[T]{name: name, doc: doc, schema: schema{Type: "boolean"}, read: func(_ *decoder, _ string, v []byte, into *T) string {
		switch kindOf(v) {
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

// anyField keeps the JSON as it was sent; it stays part of the request body.
func anyField[T any](name, doc string, at func(*T) *json.RawMessage) field[T] {
	return field[T]{name: name, doc: doc, read: func(_ *decoder, _ string, v []byte, into *T) string {
		*at(into) = v
		return ""
	}}
}

func timeField[T any](name, doc string, at func(*T) *time.Time) field[T] {
	return field[T]{name: name, doc: doc, schema: schema{Type: "string", Format: "date-time"}, read: func(_ *decoder, _ string, v []byte, into *T) string {
		if kindOf(v) != '"' {
			return "must be a time such as 2026-11-30T12:00:00Z"
		}
		if unquote(v) == "" {
			return "" // How some clients say "not set".
		}
		t, err := time.Parse(time.RFC3339Nano, unquote(v))
		if err != nil {
			return "must be a time such as 2026-11-30T12:00:00Z"
		}
		*at(into) = t
		return ""
	}}
}

// durationField reads "1m30s".
func durationField[T any](name, doc string, set func(*T, time.Duration)) field[T] {
	return field[T]{name: name, doc: doc, schema: schema{Type: "string", Examples: []any{"5s", "10m"}}, read: func(_ *decoder, _ string, v []byte, into *T) string {
		if kindOf(v) != '"' {
			return `must be a duration such as "5s" or "10m"`
		}
		if unquote(v) == "" {
			return "" // How some clients say "default".
		}
		d, msg := duration(unquote(v))
		if msg == "" {
			set(into, d)
		}
		return msg
	}}
}

func duration(text string) (time.Duration, string) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, `must be a duration such as "5s" or "10m"`
	}
	if d < 0 {
		return 0, "must not be negative"
	}
	return d, ""
}

// spanField reads a duration text or a number of seconds.
func spanField[T any](name, doc string, set func(*T, time.Duration)) field[T] {
	s := schema{OneOf: []schema{{Type: "string", Examples: []any{"60s"}}, {Type: "number"}}}
	return field[T]{name: name, doc: doc, schema: s, read: func(_ *decoder, _ string, v []byte, into *T) string {
		if kindOf(v) == '"' && unquote(v) == "" {
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
	switch kindOf(v) {
	case '"':
		return duration(unquote(v))
	case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		n, err := strconv.ParseFloat(string(v), 64)
		if err != nil || n < 0 || n > spanSecondsMax {
			return 0, "must be between 0 and 1e9 seconds"
		}
		return time.Duration(n * float64(time.Second)), ""
	}
	return 0, "must be seconds or a duration such as \"60s\""
}

// millisField reads whole milliseconds.
func millisField[T any](name, doc string, set func(*T, time.Duration)) field[T] {
	return field[T]{name: name, doc: doc, schema: schema{Type: "integer"}, read: func(_ *decoder, _ string, v []byte, into *T) string {
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

func secondsField[T any](name, doc string, set func(*T, time.Duration)) field[T] {
	return field[T]{name: name, doc: doc, schema: schema{Type: "integer"}, read: func(_ *decoder, _ string, v []byte, into *T) string {
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

func textsField[T any](name, doc string, at func(*T) *[]string) field[T] {
	s := schema{Type: "array", Items: &schema{Type: "string"}}
	return field[T]{name: name, doc: doc, schema: s, read: func(d *decoder, path string, v []byte, into *T) string {
		if kindOf(v) != '[' {
			return "must be a list of strings"
		}
		i := 0
		elements(v, func(e []byte) {
			switch {
			case kindOf(e) != '"':
				d.problem(fmt.Sprintf("%s[%d]", path, i), "must be a string")
			case halfPair(e):
				d.problem(fmt.Sprintf("%s[%d]", path, i), halfPairMessage)
			default:
				*at(into) = append(*at(into), unquote(e))
			}
			i++
		})
		return ""
	}}
}

func tagsField[T any](name, doc string, at func(*T) *map[string]string) field[T] {
	s := schema{Type: "object", AdditionalProperties: &schema{Type: "string"}}
	return field[T]{name: name, doc: doc, schema: s, read: func(d *decoder, path string, v []byte, into *T) string {
		if kindOf(v) != '{' {
			return "must be an object with string values"
		}
		n := 0
		members(v, func(name string, e []byte) {
			n++
			switch {
			case n > queue.TagsMax: // Counted only.
			case kindOf(e) != '"':
				d.problem(join(path, name), "must be a string")
			case halfPair(e):
				d.problem(join(path, name), halfPairMessage)
			default:
				addTag(d, join(path, name), at(into), name, unquote(e))
			}
		})
		if n > queue.TagsMax {
			return fmt.Sprintf("has %d entries; at most %d are allowed", n, queue.TagsMax)
		}
		return ""
	}}
}

// objectField reads one object.
func objectField[T, E any](name, doc string, of *shape[E], at func(*T) *E) field[T] {
	s := schema{Ref: refOf(of.name)}
	return field[T]{name: name, doc: doc, schema: s, read: func(d *decoder, path string, v []byte, into *T) string {
		if kindOf(v) != '{' {
			return "must be an object"
		}
		of.read(d, path, v, at(into))
		return ""
	}}
}

// listField reads a list of objects, at most limit of them.
func listField[T, E any](name, doc string, limit int, of *shape[E], at func(*T) *[]E) field[T] {
	s := schema{Type: "array", Items: &schema{Ref: refOf(of.name)}}
	return field[T]{name: name, doc: doc, schema: s, read: func(d *decoder, path string, v []byte, into *T) string {
		if kindOf(v) != '[' {
			return "must be a list"
		}
		list := make([]E, 0, 8)
		n := 0
		elements(v, func(e []byte) {
			if n++; n > limit {
				return // Counted only: a million elements must not become a million structs.
			}
			var one E
			of.read(d, fmt.Sprintf("%s[%d]", path, n-1), e, &one)
			list = append(list, one)
		})
		*at(into) = list
		if n > limit {
			return fmt.Sprintf("has %d items; at most %d are allowed", n, limit)
		}
		return ""
	}}
}

// named is one member of a mapField, in the order it was sent.
type named[E any] struct {
	name  string
	value E
	wrong bool // Some of it could not be read.
}

// mapField reads an object of objects, at most limit of them.
func mapField[T, E any](name, doc string, limit int, of *shape[E], at func(*T) *[]named[E]) field[T] {
	s := schema{Type: "object", AdditionalProperties: &schema{Ref: refOf(of.name)}}
	return field[T]{name: name, doc: doc, schema: s, read: func(d *decoder, path string, v []byte, into *T) string {
		if kindOf(v) != '{' {
			return "must be an object"
		}
		n := 0
		members(v, func(member string, e []byte) {
			if n++; n > limit {
				return
			}
			one := named[E]{name: member}
			if !isNull(e) {
				var own decoder
				of.read(&own, join(path, member), e, &one.value)
				d.also("", own.problems, asIs)
				one.wrong = len(own.problems) > 0
			}
			*at(into) = append(*at(into), one)
		})
		if n > limit {
			return fmt.Sprintf("has %d members; at most %d are allowed", n, limit)
		}
		return ""
	}}
}

// laterField is an option of the contract that this server refuses by name.
func laterField[T any](name string) field[T] {
	return field[T]{name: name, doc: "Not available yet; refused.", later: true}
}
