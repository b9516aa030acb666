package state

import (
	"encoding/json"
	"strconv"
)

// member is one member of an object that a follow-up job's payload begins with.
type member struct {
	name  string
	value []byte // JSON.
}

func textMember(name, text string) member {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // Texts always marshal.
	}
	return member{name, b}
}

func countMember(name string, n uint64) member {
	return member{name, strconv.AppendUint(nil, n, 10)}
}

// overlay is the payload of a follow-up job: base, then the members of own, which win.
// An own payload that is no object stands under "payload". The order of members is
// theirs, so that every replica writes the same bytes.
func overlay(base []member, own []byte) []byte {
	var mine map[string]json.RawMessage
	switch {
	case len(own) == 0:
	case json.Unmarshal(own, &mine) != nil || mine == nil:
		base, own = append(base, member{"payload", own}), nil
	}
	out := []byte{'{'}
	for _, m := range base {
		if _, taken := mine[m.name]; taken {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(strconv.AppendQuote(out, m.name), ':')
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
	for i, c := range object {
		if c == '{' {
			return object[i+1:]
		}
	}
	return object
}
