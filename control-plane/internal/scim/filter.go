package scim

import (
	"encoding/json"
	"strings"
)

const (
	// FilterMax is the longest filter, in bytes.
	FilterMax = 512
	// filterDepth is how deep parentheses, brackets and not may nest.
	filterDepth = 8
)

// path names an attribute: of the core schema or of an extension, and a sub-attribute of it.
type path struct {
	ext  string
	attr attribute
	sub  *attribute
}

// Filter is a condition, RFC 7644 3.4.2.2.
type Filter struct {
	// op is and, or, not, eq, ne, co, sw, pr or, for attribute[…], within.
	op    string
	parts []*Filter
	path  path
	value any
}

// ParseFilter reads a filter on resources of a kind.
func ParseFilter(k Kind, text string) (*Filter, error) {
	f, err := parseFilter(text, k.path)
	if err != nil {
		if e, ok := As(err); ok && e.Type == InvalidPath {
			e.Type = InvalidFilter
		}
		return nil, err
	}
	return f, f.checkMany()
}

// checkMany refuses to look into lists that resources don't carry with them.
func (f *Filter) checkMany() error {
	for _, p := range f.parts {
		if f.op != "within" {
			if err := p.checkMany(); err != nil {
				return err
			}
		}
	}
	_, text := f.value.(string)
	switch {
	case f.path.attr.Name == groupsOfUser.Name:
		return invalid(InvalidFilter, "users can't be filtered by groups; filter groups by members")
	case f.path.attr.Name == "members" && (f.op != "eq" && f.op != "ne" || f.path.leaf().Name != "value" || !text):
		return invalid(InvalidFilter, `groups can be filtered by members with members.value eq "…" only`)
	}
	return nil
}

func parseFilter(text string, resolve func(string) (path, error)) (*Filter, error) {
	if len(text) > FilterMax {
		return nil, invalid(InvalidFilter, "a filter can't be longer than %d bytes", FilterMax)
	}
	tokens, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, resolve: resolve}
	f, err := p.or(0)
	if err == nil && p.peek() != "" {
		err = invalid(InvalidFilter, "the filter has %s where it should end", shown(p.peek()))
	}
	return f, err
}

// lex splits a filter. A text keeps its quotes.
func lex(text string) (out []string, _ error) {
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == ' ':
			i++
		case strings.IndexByte("()[]", c) >= 0:
			out = append(out, text[i:i+1])
			i++
		case c == '"':
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			if end >= len(text) || !json.Valid([]byte(text[i:end+1])) {
				return nil, invalid(InvalidFilter, "a text in the filter doesn't end, or isn't written as in JSON")
			}
			out = append(out, text[i:end+1])
			i = end + 1
		default:
			end := i
			for end < len(text) && strings.IndexByte(" ()[]\"", text[end]) < 0 {
				end++
			}
			out = append(out, text[i:end])
			i = end
		}
	}
	return out, nil
}

func shown(token string) string {
	const most = 40
	if len(token) > most {
		token = strings.ToValidUTF8(token[:most], "") + "…"
	}
	if token == "" {
		return "nothing"
	}
	return `"` + strings.Trim(token, `"`) + `"`
}

type parser struct {
	tokens  []string
	resolve func(string) (path, error)
}

func (p *parser) peek() string {
	if len(p.tokens) == 0 {
		return ""
	}
	return p.tokens[0]
}

func (p *parser) next() string {
	t := p.peek()
	if t != "" {
		p.tokens = p.tokens[1:]
	}
	return t
}

func (p *parser) or(depth int) (*Filter, error) { return p.chain("or", depth, p.and) }

func (p *parser) and(depth int) (*Filter, error) { return p.chain("and", depth, p.unit) }

func (p *parser) chain(op string, depth int, part func(int) (*Filter, error)) (*Filter, error) {
	first, err := part(depth)
	if err != nil || !strings.EqualFold(p.peek(), op) {
		return first, err
	}
	f := &Filter{op: op, parts: []*Filter{first}}
	for strings.EqualFold(p.peek(), op) {
		p.next()
		more, err := part(depth)
		if err != nil {
			return nil, err
		}
		f.parts = append(f.parts, more)
	}
	return f, nil
}

func (p *parser) unit(depth int) (*Filter, error) {
	if depth > filterDepth {
		return nil, invalid(InvalidFilter, "the filter is nested deeper than %d levels", filterDepth)
	}
	t := p.next()
	switch {
	case t == "(":
		return p.closed(depth, ")")
	case strings.EqualFold(t, "not") && p.peek() == "(":
		p.next()
		inner, err := p.closed(depth, ")")
		return &Filter{op: "not", parts: []*Filter{inner}}, err
	case t == "" || strings.IndexByte(`)]["`, t[0]) >= 0:
		return nil, invalid(InvalidFilter, "the filter has %s where an attribute should be", shown(t))
	}
	at, err := p.resolve(t)
	if err != nil {
		return nil, err
	}
	if p.peek() == "[" {
		return p.within(at, depth)
	}
	return p.comparison(at)
}

func (p *parser) closed(depth int, end string) (*Filter, error) {
	f, err := p.or(depth + 1)
	if err == nil && p.next() != end {
		err = invalid(InvalidFilter, "a bracket of the filter isn't closed")
	}
	return f, err
}

func (p *parser) within(at path, depth int) (*Filter, error) {
	if at.attr.Type != typeComplex || at.sub != nil {
		return nil, invalid(InvalidFilter, "%s has no sub-attributes to filter by", at.attr.Name)
	}
	p.next()
	outer := p.resolve
	p.resolve = inside(at.attr)
	f, err := p.closed(depth, "]")
	p.resolve = outer
	return &Filter{op: "within", path: at, parts: []*Filter{f}}, err
}

// inside resolves the names of sub-attributes.
func inside(a attribute) func(string) (path, error) {
	return func(name string) (path, error) {
		sub, ok := find(a.Sub, name)
		if !ok {
			return path{}, invalid(InvalidFilter, "%s has no sub-attribute %s", a.Name, shown(name))
		}
		return path{attr: sub}, nil
	}
}

func (p *parser) comparison(at path) (*Filter, error) {
	f := &Filter{op: strings.ToLower(p.next()), path: at}
	switch f.op {
	case "pr":
		return f, nil
	case "eq", "ne", "co", "sw":
	default:
		return nil, invalid(InvalidFilter, "the filter has %s where an operator should be: eq, ne, co, sw and pr are supported", shown(f.op))
	}
	text := p.next()
	var v any
	if text == "" || json.Unmarshal([]byte(text), &v) != nil {
		// Entra sends True and False without quotes.
		if !strings.EqualFold(text, "true") && !strings.EqualFold(text, "false") {
			return nil, invalid(InvalidFilter, "the filter has %s where a value should be: a text in double quotes, true, false or null", shown(text))
		}
		v = strings.EqualFold(text, "true")
	}
	switch v.(type) {
	case string, bool, nil:
	default:
		return nil, invalid(InvalidFilter, "the filter compares %s with %s; compare it with a text, true, false or null", at.attr.Name, shown(text))
	}
	leaf := at.leaf()
	if leaf.Type == typeComplex {
		return nil, invalid(InvalidFilter, "%s can't be compared as a whole; name a sub-attribute", at.attr.Name)
	}
	if s, ok := v.(string); ok && leaf.Type == typeBoolean {
		if v = strings.EqualFold(s, "true"); v == false && !strings.EqualFold(s, "false") {
			return nil, invalid(InvalidFilter, "%s is compared with true or false", at.attr.Name)
		}
	}
	if _, ok := v.(string); !ok && (f.op == "co" || f.op == "sw") {
		return nil, invalid(InvalidFilter, "%s compares with a text", f.op)
	}
	f.value = v
	return f, nil
}

// leaf is what is compared: of a complex attribute without a sub-attribute, its value.
func (p path) leaf() attribute {
	if p.sub != nil {
		return *p.sub
	}
	if p.attr.Type == typeComplex {
		if v, ok := find(p.attr.Sub, "value"); ok {
			return v
		}
	}
	return p.attr
}

// path reads attribute, attribute.sub, or either behind the URN of a schema.
func (k Kind) path(text string) (path, error) {
	name, list, ext := text, append(append([]attribute{}, k.core().Attributes...), common...), ""
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		urn := text[:i]
		name = text[i+1:]
		if e, ok := k.extension(urn); ok {
			list, ext = e.Attributes, e.ID
		} else if !strings.EqualFold(urn, k.core().ID) {
			return path{}, invalid(InvalidPath, "there is no schema %s of a %s", shown(urn), k.word())
		}
	}
	first, rest, dotted := strings.Cut(name, ".")
	a, ok := find(list, first)
	if !ok {
		return path{}, invalid(InvalidPath, "a %s has no attribute %s", k.word(), shown(first))
	}
	p := path{ext: ext, attr: a}
	if dotted {
		sub, ok := find(a.Sub, rest)
		if !ok {
			return path{}, invalid(InvalidPath, "%s has no sub-attribute %s", a.Name, shown(rest))
		}
		p.sub = &sub
	}
	return p, nil
}

// Holder answers for attributes that a resource doesn't carry with it because they are
// many: whether one of them is the value.
type Holder func(attribute, value string) (bool, error)

// Match reports whether a resource fulfils the filter. holds may be nil.
func (f *Filter) Match(o Object, holds Holder) (bool, error) {
	switch f.op {
	case "and", "or":
		for _, p := range f.parts {
			ok, err := p.Match(o, holds)
			if err != nil || ok == (f.op == "or") {
				return ok, err
			}
		}
		return f.op == "and", nil
	case "not":
		ok, err := f.parts[0].Match(o, holds)
		return !ok, err
	case "within":
		for _, e := range values(f.path.holder(o)[f.path.attr.Name]) {
			inner, _ := e.(Object)
			if ok, err := f.parts[0].Match(inner, nil); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}
	if s, ok := f.value.(string); ok && holds != nil && f.path.attr.Name == "members" && (f.op == "eq" || f.op == "ne") && f.path.leaf().Name == "value" {
		has, err := holds(f.path.attr.Name, s)
		return has == (f.op == "eq"), err
	}
	return f.compare(f.path.read(o)), nil
}

func (f *Filter) compare(found []any) bool {
	if f.op == "pr" {
		return len(found) > 0
	}
	if f.value == nil {
		return (len(found) == 0) == (f.op == "eq")
	}
	op := f.op
	if op == "ne" {
		op = "eq"
	}
	any := false
	for _, v := range found {
		any = any || holds(op, v, f.value, f.path.leaf().CaseExact)
	}
	return any != (f.op == "ne")
}

func holds(op string, have, want any, exact bool) bool {
	a, ok := have.(string)
	b, also := want.(string)
	if !ok || !also {
		return op == "eq" && have == want
	}
	if !exact {
		a, b = strings.ToLower(a), strings.ToLower(b)
	}
	switch op {
	case "co":
		return strings.Contains(a, b)
	case "sw":
		return strings.HasPrefix(a, b)
	}
	return a == b
}

func (p path) holder(o Object) Object {
	if p.ext == "" {
		return o
	}
	inner, _ := o[p.ext].(Object)
	return inner
}

// read gives all values of a path.
func (p path) read(o Object) (out []any) {
	for _, v := range values(p.holder(o)[p.attr.Name]) {
		inner, isObject := v.(Object)
		switch {
		case !isObject:
			out = append(out, v)
		case p.sub == nil && p.leaf().Name == p.attr.Name:
			out = append(out, v)
		default:
			if v, ok := inner[p.leaf().Name]; ok {
				out = append(out, v)
			}
		}
	}
	return out
}

func values(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// Needs gives the text that an attribute must equal for the filter to match, if there is
// one: what a look-up can go by.
func (f *Filter) Needs(name string) (string, bool) {
	switch {
	case f == nil:
		return "", false
	case f.op == "and":
		for _, p := range f.parts {
			if s, ok := p.Needs(name); ok {
				return s, true
			}
		}
	case f.op == "eq" && f.path.ext == "" && f.path.attr.Name == name && (f.path.sub == nil || f.path.sub.Name == "value"):
		s, ok := f.value.(string)
		return s, ok
	}
	return "", false
}
