package scim

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// BodyMax bounds a request, in bytes.
const BodyMax = 1 << 20

// depthMax is how deep the JSON of a request may nest; honest ones need 5.
const depthMax = 12

// Object is a JSON object. In a resource, its members are spelled as the schema does.
type Object = map[string]any

// Decode reads one JSON object, in which no member appears twice, in whatever case.
func Decode(raw []byte) (Object, error) {
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return nil, invalid(InvalidSyntax, "the body isn't valid JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := value(d, 0)
	if err != nil {
		return nil, err
	}
	o, ok := v.(Object)
	if !ok {
		return nil, invalid(InvalidSyntax, "the body must be a JSON object")
	}
	return o, nil
}

func value(d *json.Decoder, depth int) (any, error) {
	if depth > depthMax {
		return nil, invalid(InvalidSyntax, "the body is nested deeper than %d levels", depthMax)
	}
	t, err := d.Token()
	if err != nil {
		return nil, invalid(InvalidSyntax, "the body isn't valid JSON")
	}
	switch t {
	case json.Delim('{'):
		return members(d, depth)
	case json.Delim('['):
		return elements(d, depth)
	}
	return t, nil
}

func members(d *json.Decoder, depth int) (any, error) {
	out, seen := Object{}, map[string]bool{}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, invalid(InvalidSyntax, "the body isn't valid JSON")
		}
		if fold := strings.ToLower(name); seen[fold] {
			return nil, invalid(InvalidSyntax, "the member %q appears twice in one object; names are the same in upper and lower case", name)
		} else {
			seen[fold] = true
		}
		if out[name], err = value(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, _ = d.Token() // The end, which is there: the body is valid JSON.
	return out, nil
}

func elements(d *json.Decoder, depth int) (any, error) {
	out := []any{}
	for d.More() {
		v, err := value(d, depth+1)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	_, _ = d.Token() // As above.
	return out, nil
}
