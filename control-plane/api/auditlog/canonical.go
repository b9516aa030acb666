package auditlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

const (
	// form begins every text that is hashed or signed.
	form = "corvo-audit-1\n"

	memberHash      = "hash"
	memberSignature = "signature"

	// depthMax bounds what a decoder follows; our own lines have four levels.
	depthMax = 32
)

var (
	errNotObject = errors.New("it isn't a JSON object")
	errDuplicate = errors.New("a name is there twice")
	errDepth     = errors.New("it is nested too deeply")
	errUTF8      = errors.New("it isn't UTF-8")
	errTrailing  = errors.New("something follows the object")
)

// object is a line as it was read; numbers are as they were written.
type object map[string]any

// readObject is strict where a lenient reader could be shown something else than another:
// a name twice, text that is not UTF-8, a second value.
func readObject(line []byte) (object, error) {
	if !utf8.Valid(line) {
		return nil, errUTF8
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	v, err := readValue(d, 0)
	if err != nil {
		return nil, err
	}
	o, ok := v.(object)
	if !ok {
		return nil, errNotObject
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errTrailing
	}
	return o, nil
}

func readValue(d *json.Decoder, depth int) (any, error) {
	if depth > depthMax {
		return nil, errDepth
	}
	t, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("it isn't JSON: %w", err)
	}
	switch t {
	case json.Delim('{'):
		return readMembers(d, depth)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	}
	return t, nil
}

func readMembers(d *json.Decoder, depth int) (any, error) {
	o := object{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("it isn't JSON: %w", err)
		}
		name, _ := t.(string) // The decoder allows nothing else.
		if _, twice := o[name]; twice {
			return nil, fmt.Errorf("%w: %q", errDuplicate, name)
		}
		if o[name], err = readValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return o, err
}

// objectOf is a line of ours as somebody who reads it sees it.
func objectOf(line any) (object, error) {
	text, err := json.Marshal(line)
	if err != nil {
		return nil, err
	}
	return readObject(text)
}

// canonical is the text that is hashed or signed, without one member.
func (o object) canonical(without string) []byte {
	rest := maps.Clone(o)
	delete(rest, without)
	return appendValue([]byte(form), rest)
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'z')
	case bool:
		if v {
			return append(b, 't')
		}
		return append(b, 'f')
	case string:
		return appendText(b, 's', v)
	case json.Number:
		return appendText(b, 'n', v.String())
	case []any:
		b = append(b, '[')
		for _, e := range v {
			b = appendValue(b, e)
		}
		return append(b, ']')
	case object:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = appendValue(appendText(b, 's', name), v[name])
		}
		return append(b, '}')
	}
	panic(fmt.Sprintf("a value of type %T is no JSON value", v)) // readValue makes no other.
}

func appendText(b []byte, kind byte, text string) []byte {
	b = append(b, kind)
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, ':')
	return append(b, text...)
}

func (o object) hash() string {
	sum := sha256.Sum256(o.canonical(memberHash))
	return hex.EncodeToString(sum[:])
}

// text is a member that is a text; empty if it is none.
func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

// number is a member that is a whole number; -1 if it is none. What is left out is 0.
func (o object) number(name string) int64 {
	v, there := o[name]
	if !there {
		return 0
	}
	text, _ := v.(json.Number)
	n, err := strconv.ParseInt(text.String(), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// CanonicalText is the canonical text of a line, whole.
func CanonicalText(line []byte) ([]byte, error) {
	o, err := readObject(line)
	if err != nil {
		return nil, err
	}
	return appendValue([]byte(form), o), nil
}
