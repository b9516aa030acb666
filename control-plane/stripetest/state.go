package stripetest

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

func newRecord(account, secret string) record {
	return record{Account: account, Secret: secret, Objects: make(map[string][]object), Answers: make(map[string]answered)}
}

// kept is a record with where its links lead to: that may be another place at the next start.
type kept struct {
	URL string
	record
}

// Open makes a Stripe that lives beside a program. Whoever calls it serves it at the URL, and
// calls Run.
func Open(o Options) (*Server, error) {
	s := &Server{URL: o.URL, key: o.Key, now: o.Now, save: o.Save, happened: make(chan struct{}, 1), has: newRecord("acct_"+rand.Text(), rand.Text()),
		usageOf: make(map[string][]*usage), identified: make(map[string][]*usage)}
	if o.State == nil {
		return s, s.keep()
	}
	var before kept
	if err := json.Unmarshal(o.State, &before); err != nil {
		return nil, fmt.Errorf("read the state of test payments: %w", err)
	}
	if before.URL != o.URL {
		moved := bytes.ReplaceAll(o.State, []byte(before.URL+"/"), []byte(o.URL+"/"))
		if err := json.Unmarshal(moved, &before); err != nil {
			return nil, fmt.Errorf("read the state of test payments: %w", err)
		}
	}
	s.has = before.record
	for _, u := range s.has.Usage {
		s.indexUsage(u)
	}
	s.announce(before.URL)
	return s, s.keep()
}

// announce tells of every customer if the links to their invoices have changed.
func (s *Server) announce(before string) {
	if before == s.URL {
		return
	}
	for _, c := range s.has.Objects["customer"] {
		s.event("customer.updated", c)
	}
}

// Account is the same for as long as the state is kept, and another for each new state.
func (s *Server) Account() string { return s.has.Account }

// keep saves the state.
func (s *Server) keep() error {
	if s.save == nil {
		return nil
	}
	maps.DeleteFunc(s.has.Answers, func(_ string, a answered) bool { return s.now().Sub(a.At) >= keyLife })
	state, err := json.Marshal(kept{s.URL, s.has})
	if err == nil {
		err = s.save(state)
	}
	if err != nil {
		return fmt.Errorf("keep the state of test payments: %w", err)
	}
	return nil
}

// UnmarshalJSON gives values the types that they had: whole numbers, objects and lists of them.
func (o *object) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var plain map[string]any
	if err := d.Decode(&plain); err != nil {
		return err
	}
	*o = typed(plain).(object)
	return nil
}

func typed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		o := make(object, len(v))
		for name, part := range v {
			o[name] = typed(part)
		}
		return o
	case []any:
		list := make([]object, 0, len(v))
		for _, part := range v {
			if o, is := typed(part).(object); is {
				list = append(list, o)
			}
		}
		return list
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // It was written as a number.
		return f
	}
	return v
}

// pageURL is the address of a page.
func (s *Server) pageURL(kind, id string) string {
	return strings.Join([]string{s.URL, s.has.Secret, kind, id}, "/")
}
