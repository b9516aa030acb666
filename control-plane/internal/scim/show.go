package scim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ETag stands for a version of a resource.
func (r Resource) ETag() string { return fmt.Sprintf(`W/"%d"`, r.Version) }

const timeForm = "2006-01-02T15:04:05.000Z"

// whole is a resource as it is filtered and shown.
func (r Resource) whole(base string) Object {
	o := maps.Clone(r.Attributes)
	if o == nil {
		o = Object{}
	}
	o["id"] = r.ID
	o["meta"] = Object{
		"resourceType": string(r.Kind), "created": stamp(r.Created), "lastModified": stamp(r.Modified),
		"location": r.location(base), "version": r.ETag(),
	}
	return o
}

func stamp(t time.Time) string { return t.UTC().Format(timeForm) }

func (r Resource) location(base string) string {
	return base + "/" + r.Kind.endpoint() + "/" + r.ID
}

// Matches reports whether a resource fulfils a filter; nil is fulfilled.
func (f *Filter) Matches(r Resource, holds Holder) (bool, error) {
	if f == nil {
		return true, nil
	}
	return f.Match(r.whole(""), holds)
}

// projection is which attributes are shown.
type projection struct{ only, without []path }

// readProjection reads the parameters attributes and excludedAttributes. Names that a kind
// doesn't have are left out, as directories ask for those of their other applications.
func (k Kind) readProjection(only, without string) (p projection, _ error) {
	if only != "" && without != "" {
		return p, invalid(InvalidValue, "attributes and excludedAttributes can't be used together")
	}
	const most = 4096
	if len(only)+len(without) > most {
		return p, invalid(InvalidValue, "attributes and excludedAttributes can't be longer than %d bytes", most)
	}
	read := func(text string) (out []path) {
		for name := range strings.SplitSeq(text, ",") {
			if name = strings.TrimSpace(name); name == "" {
				continue
			}
			if at, err := k.target(name); err == nil && at.where == nil {
				out = append(out, at.path)
			}
		}
		return out
	}
	p.only, p.without = read(only), read(without)
	if only != "" && p.only == nil {
		p.only = []path{}
	}
	return p, nil
}

// wants reports whether an attribute is shown at all; some only if they are asked for.
func (p projection) wants(a string, onRequest bool) bool {
	named := func(list []path) bool {
		return slices.ContainsFunc(list, func(at path) bool { return at.attr.Name == a && at.ext == "" })
	}
	if p.only != nil || onRequest {
		return named(p.only)
	}
	return !slices.ContainsFunc(p.without, func(at path) bool { return at.attr.Name == a && at.ext == "" && at.sub == nil })
}

// show is a resource as a client gets it.
func (r Resource) show(base string, p projection) Object {
	o := r.whole(base)
	if r.Kind == Group && p.wants("members", false) {
		set(o, "members", references(r.Members, base+"/Users/", true))
	}
	if r.Kind == User && p.wants(groupsOfUser.Name, true) {
		set(o, groupsOfUser.Name, references(r.Groups, base+"/Groups/", false))
	}
	if p.only != nil {
		o = chosen(o, p.only)
	}
	for _, at := range p.without {
		if at.attr.Name != "id" {
			hide(o, at)
		}
	}
	o["id"] = r.ID
	schemas := []any{r.Kind.core().ID}
	for _, e := range r.Kind.extensions() {
		if _, there := o[e.ID]; there {
			schemas = append(schemas, e.ID)
		}
	}
	o["schemas"] = schemas
	return o
}

func references(all []Reference, base string, typed bool) (out []any) {
	for _, r := range all {
		o := Object{"value": r.ID, "$ref": base + r.ID}
		set(o, "display", orNil(r.Display))
		if typed {
			o["type"] = string(User)
		}
		out = append(out, o)
	}
	return out
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func chosen(o Object, only []path) Object {
	out := Object{}
	for _, at := range only {
		from, into := o, out
		if at.ext != "" {
			from, _ = o[at.ext].(Object)
			if from == nil {
				continue
			}
			if at.attr.Name == "" {
				out[at.ext] = from
				continue
			}
			if into, _ = out[at.ext].(Object); into == nil {
				into = Object{}
			}
		}
		if v, there := from[at.attr.Name]; there {
			set(into, at.attr.Name, part(v, at, into[at.attr.Name]))
		}
		if at.ext != "" {
			set(out, at.ext, into)
		}
	}
	return out
}

// part is a value, or of it the sub-attribute that is named beside those shown already.
func part(v any, at path, shown any) any {
	if at.sub == nil {
		return v
	}
	pick := func(v, shown any) any {
		from, _ := v.(Object)
		into, _ := shown.(Object)
		if into == nil {
			into = Object{}
		}
		set(into, at.sub.Name, from[at.sub.Name])
		return into
	}
	list, many := v.([]any)
	if !many {
		return pick(v, shown)
	}
	out := make([]any, len(list))
	already := values(shown)
	for i, e := range list {
		var had any
		if i < len(already) {
			had = already[i]
		}
		out[i] = pick(e, had)
	}
	return out
}

// hide takes an attribute out of a copy.
func hide(o Object, at path) {
	if at.ext != "" {
		inner, ok := o[at.ext].(Object)
		if !ok {
			return
		}
		if at.attr.Name == "" {
			delete(o, at.ext)
			return
		}
		inner = maps.Clone(inner)
		hide(inner, path{attr: at.attr, sub: at.sub})
		set(o, at.ext, inner)
		return
	}
	if at.sub == nil {
		delete(o, at.attr.Name)
		return
	}
	v, there := o[at.attr.Name]
	if !there {
		return
	}
	copied := clone(v)
	for _, e := range values(copied) {
		if e, ok := e.(Object); ok {
			delete(e, at.sub.Name)
		}
	}
	set(o, at.attr.Name, copied)
}
