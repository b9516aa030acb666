package scim

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// operationsMax bounds the operations of one PATCH.
const operationsMax = 1000

// MemberOp is a change of a group's members, by their ids.
type MemberOp struct {
	// Replace is all members; otherwise Add are added and Remove taken out.
	Replace     bool
	Add, Remove []string
}

// operation is one of a PATCH, read.
type operation struct {
	op    string
	value any
	// The target: an attribute, of those of its values that fulfil where, the sub-attribute.
	// Without an attribute it is all of an extension.
	path  path
	where *Filter
}

// Patch applies the body of a PATCH to a copy of a resource. Of a group, the members are not
// in the resource: what is done to them is returned.
func (k Kind) Patch(o Object, body Object) (Object, []MemberOp, error) {
	operations, err := k.operations(body)
	if err != nil {
		return nil, nil, err
	}
	out := clone(o).(Object)
	var ops []MemberOp
	for _, op := range operations {
		if op.path.attr.Name == "members" {
			m, err := op.members()
			if err != nil {
				return nil, nil, err
			}
			ops = append(ops, m)
			continue
		}
		if err := op.apply(out); err != nil {
			return nil, nil, err
		}
	}
	return out, ops, k.check(out)
}

// Members takes the members out of a resource that a POST or PUT gives.
func Members(o Object) (ids []string, there bool, _ error) {
	v, there := o["members"]
	delete(o, "members")
	ids, err := memberIDs(v)
	return ids, there, err
}

func clone(v any) any {
	switch v := v.(type) {
	case Object:
		out := make(Object, len(v))
		for name, e := range v {
			out[name] = clone(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = clone(e)
		}
		return out
	}
	return v
}

func member(o Object, name string) (any, bool) {
	for n, v := range o {
		if strings.EqualFold(n, name) {
			return v, true
		}
	}
	return nil, false
}

func (k Kind) operations(body Object) (out []operation, _ error) {
	v, _ := member(body, "schemas")
	if !slices.ContainsFunc(values(v), func(s any) bool { t, ok := s.(string); return ok && strings.EqualFold(t, urnPatch) }) {
		return nil, invalid(InvalidSyntax, "schemas must have %s", urnPatch)
	}
	v, _ = member(body, "Operations")
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, invalid(InvalidSyntax, "Operations must be a list with at least one operation")
	}
	for _, e := range list {
		in, ok := e.(Object)
		if !ok {
			return nil, invalid(InvalidSyntax, "each operation must be an object")
		}
		more, err := k.operation(in)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
		if len(out) > operationsMax {
			return nil, invalid(TooMany, "one request can't have more than %d operations; send several", operationsMax)
		}
	}
	return out, nil
}

// operation reads one; without a path it is one per member of its value.
func (k Kind) operation(in Object) ([]operation, error) {
	v, _ := member(in, "op")
	op, _ := v.(string)
	op = strings.ToLower(op)
	if op != "add" && op != "replace" && op != "remove" {
		return nil, invalid(InvalidSyntax, "op must be add, replace or remove")
	}
	value, valued := member(in, "value")
	if !valued && op != "remove" {
		return nil, invalid(InvalidValue, "the operation %s needs a value", op)
	}
	v, there := member(in, "path")
	at, isText := v.(string)
	if there && !isText && v != nil {
		return nil, invalid(InvalidPath, "path must be a text")
	}
	if at != "" {
		target, err := k.target(at)
		if err != nil {
			return nil, err
		}
		target.op, target.value = op, value
		return []operation{target}, target.check()
	}
	if op == "remove" {
		return nil, invalid(NoTarget, "the operation remove needs a path")
	}
	o, ok := value.(Object)
	if !ok {
		return nil, invalid(InvalidValue, "without a path, value must be an object of attributes")
	}
	return k.each(op, o)
}

// each reads the members of a value as paths. What a resource doesn't know, or what only
// the service sets, is left out: directories send whole resources.
func (k Kind) each(op string, o Object) (out []operation, _ error) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if strings.EqualFold(name, "schemas") {
			continue
		}
		target, err := k.target(name)
		if err != nil && !strings.ContainsAny(name, ".[:") {
			continue
		}
		if err != nil {
			return nil, err
		}
		target.op, target.value = op, o[name]
		if err := target.check(); err != nil {
			if target.path.attr.Mutability == readOnly {
				continue
			}
			return nil, err
		}
		out = append(out, target)
	}
	return out, nil
}

// target reads a path: attribute, attribute.sub, attribute[filter], attribute[filter].sub,
// each maybe behind the URN of its schema, or the URN of an extension alone.
func (k Kind) target(text string) (t operation, err error) {
	if len(text) > FilterMax {
		return t, invalid(InvalidPath, "a path can't be longer than %d bytes", FilterMax)
	}
	if ext, ok := k.extension(text); ok {
		t.path = path{ext: ext.ID, attr: attribute{Type: typeComplex, Mutability: readWrite, Sub: ext.Attributes}}
		return t, nil
	}
	name, rest, filtered := strings.Cut(text, "[")
	if t.path, err = k.path(name); err != nil || !filtered {
		return t, err
	}
	end := strings.LastIndexByte(rest, ']')
	if end < 0 || !t.path.attr.MultiValued || t.path.sub != nil {
		return t, invalid(InvalidPath, "the path %s isn't attribute[filter] or attribute[filter].sub-attribute of an attribute with several values", shown(text))
	}
	if t.where, err = parseFilter(rest[:end], inside(t.path.attr)); err != nil {
		return t, err
	}
	if dot := rest[end+1:]; dot != "" {
		sub, ok := find(t.path.attr.Sub, strings.TrimPrefix(dot, "."))
		if !ok || dot[0] != '.' {
			return t, invalid(InvalidPath, "%s has no sub-attribute %s", t.path.attr.Name, shown(dot))
		}
		t.path.sub = &sub
	}
	return t, nil
}

func (op operation) check() error {
	if op.path.attr.Mutability == readOnly || op.path.sub != nil && op.path.sub.Mutability == readOnly {
		return invalid(Mutability, "%s is set by the service and can't be changed", op.path.attr.Name)
	}
	return nil
}

// members is what an operation does to the members of a group.
func (op operation) members() (m MemberOp, err error) {
	if op.path.sub != nil && (op.op != "remove" || op.path.sub.Name != "value") {
		return m, invalid(Mutability, "members.%s can't be changed; add and remove members", op.path.sub.Name)
	}
	if op.where != nil {
		ids, ok := op.where.ids()
		if op.op != "remove" || !ok {
			return m, invalid(InvalidPath, `the members to remove are named by members[value eq "…"]`)
		}
		return MemberOp{Remove: ids}, nil
	}
	ids, err := memberIDs(op.value)
	if err != nil {
		return m, err
	}
	switch {
	case op.op == "add":
		return MemberOp{Add: ids}, nil
	case op.op == "replace":
		return MemberOp{Replace: true, Add: ids}, nil
	case len(values(op.value)) == 0:
		return MemberOp{Replace: true}, nil
	}
	return MemberOp{Remove: ids}, nil
}

// ids are those that a filter of the form value eq "…" or value eq "…" names.
func (f *Filter) ids() (out []string, ok bool) {
	if f.op == "or" {
		for _, p := range f.parts {
			ids, ok := p.ids()
			if !ok {
				return nil, false
			}
			out = append(out, ids...)
		}
		return out, true
	}
	id, ok := f.value.(string)
	return []string{id}, ok && f.op == "eq" && f.path.attr.Name == "value"
}

func memberIDs(v any) (out []string, _ error) {
	a, _ := find(groupSchema.Attributes, "members")
	read, err := a.read(v)
	if err != nil {
		return nil, err
	}
	for _, e := range values(read) {
		id, ok := e.(Object)["value"].(string)
		if !ok {
			return nil, invalid(InvalidValue, "each member needs its id as value")
		}
		if !slices.Contains(out[max(0, len(out)-1):], id) {
			out = append(out, id)
		}
	}
	return out, nil
}

// apply changes a resource.
func (op operation) apply(o Object) error {
	if op.path.ext != "" {
		inner, _ := o[op.path.ext].(Object)
		if inner == nil {
			inner = Object{}
		}
		err := op.in(inner)
		set(o, op.path.ext, inner)
		return err
	}
	return op.in(o)
}

// in changes an attribute in the object that holds it.
func (op operation) in(o Object) error {
	a := op.path.attr
	switch {
	case a.Name == "": // All of an extension.
		return op.merge(o, a)
	case op.where != nil:
		return op.chosen(o)
	case op.path.sub != nil:
		return op.subAttribute(o)
	case op.op == "remove":
		return op.remove(o)
	case a.MultiValued:
		return op.list(o)
	case a.Type == typeComplex:
		inner, _ := o[a.Name].(Object)
		if inner == nil {
			inner = Object{}
		}
		err := op.merge(inner, a)
		set(o, a.Name, inner)
		return err
	}
	v, err := a.read(op.value)
	if err == nil {
		set(o, a.Name, v)
	}
	return err
}

// merge writes the sub-attributes that a value has, and leaves the others.
func (op operation) merge(into Object, a attribute) error {
	if op.op == "remove" || op.value == nil {
		clear(into)
		return nil
	}
	v, err := readComplex(a, op.value)
	if err != nil {
		return err
	}
	given, _ := op.value.(Object)
	for name, e := range given {
		if sub, ok := find(a.Sub, name); ok && e == nil {
			delete(into, sub.Name)
		}
	}
	maps.Copy(into, v.(Object))
	return nil
}

// remove takes an attribute away or, where it is given with values, these.
func (op operation) remove(o Object) error {
	a := op.path.attr
	if a.Required {
		return invalid(InvalidValue, "%s is required and can't be removed", a.Name)
	}
	if !a.MultiValued || op.value == nil {
		delete(o, a.Name)
		return nil
	}
	v, err := a.read(op.value)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(values(o[a.Name]), func(have any) bool {
		return slices.ContainsFunc(values(v), func(gone any) bool { return sameValue(have, gone) })
	})
	set(o, a.Name, left)
	return nil
}

// sameValue compares complex values by what both of them say of value and type.
func sameValue(have, want any) bool {
	a, ok := have.(Object)
	b, also := want.(Object)
	if !ok || !also {
		return reflect.DeepEqual(have, want)
	}
	for _, name := range []string{"value", "type"} {
		if w, given := b[name]; given && !reflect.DeepEqual(a[name], w) {
			return false
		}
	}
	return b["value"] != nil || reflect.DeepEqual(a, b)
}

// list adds to an attribute with several values, or replaces them.
func (op operation) list(o Object) error {
	a := op.path.attr
	v, err := a.read(op.value)
	if err != nil {
		return err
	}
	given := values(v)
	if op.op == "replace" {
		set(o, a.Name, given)
		return nil
	}
	all := values(o[a.Name])
	for _, e := range given {
		if slices.ContainsFunc(all, func(have any) bool { return reflect.DeepEqual(have, e) }) {
			continue
		}
		onlyPrimary(e, all)
		all = append(all, e)
	}
	return a.put(o, all)
}

func (a attribute) put(o Object, all []any) error {
	if len(all) > listMax {
		return invalid(TooMany, "%s can't have more than %d values", a.Name, listMax)
	}
	set(o, a.Name, all)
	return nil
}

// onlyPrimary makes a primary value the only one.
func onlyPrimary(v any, others []any) {
	if o, ok := v.(Object); !ok || o["primary"] != true {
		return
	}
	for _, e := range others {
		if e, ok := e.(Object); ok {
			delete(e, "primary")
		}
	}
}

// subAttribute changes one of a complex attribute; of one with several values, in all of
// them.
func (op operation) subAttribute(o Object) error {
	a := op.path.attr
	all := values(o[a.Name])
	if len(all) == 0 && op.op != "remove" {
		all = []any{Object{}}
	}
	return op.changeEach(o, all, all)
}

// changeEach writes the sub-attribute into some of all values.
func (op operation) changeEach(o Object, all, some []any) error {
	a := op.path.attr
	v, err := op.path.sub.read(op.value)
	if err != nil {
		return err
	}
	for _, e := range some {
		e, ok := e.(Object)
		if !ok {
			continue
		}
		if op.op == "remove" {
			v = nil
		}
		if op.path.sub.Name == "primary" && v == true {
			onlyPrimary(Object{"primary": true}, all)
		}
		set(e, op.path.sub.Name, v)
	}
	all = slices.DeleteFunc(all, func(e any) bool { inner, ok := e.(Object); return ok && len(inner) == 0 })
	if a.MultiValued {
		return a.put(o, all)
	}
	if len(all) == 0 {
		delete(o, a.Name)
		return nil
	}
	o[a.Name] = all[0]
	return nil
}

// chosen changes the values that fulfil a filter. What is added to a value that is not there
// makes it, of what the filter demands: Entra adds a first emails[type eq "work"].value.
func (op operation) chosen(o Object) error {
	a := op.path.attr
	all := values(o[a.Name])
	var some, others []any
	for _, e := range all {
		inner, _ := e.(Object)
		ok, err := op.where.Match(inner, nil)
		if err != nil {
			return err
		}
		if ok {
			some = append(some, e)
		} else {
			others = append(others, e)
		}
	}
	if op.op == "remove" && op.path.sub == nil {
		set(o, a.Name, others)
		return nil
	}
	if len(some) == 0 {
		made, ok := op.where.demanded()
		switch {
		case op.op == "remove":
			return nil
		case op.op == "replace" || !ok:
			return invalid(NoTarget, "no value of %s fulfils the filter of the path; add it first", a.Name)
		}
		some, all = []any{made}, append(all, made)
	}
	if op.path.sub != nil {
		return op.changeEach(o, all, some)
	}
	for _, e := range some {
		if err := op.merge(e.(Object), a); err != nil {
			return err
		}
		onlyPrimary(e, slices.DeleteFunc(slices.Clone(all), func(o any) bool { return sameObject(o, e) }))
	}
	return a.put(o, slices.DeleteFunc(all, func(e any) bool { return len(e.(Object)) == 0 }))
}

func sameObject(a, b any) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// demanded is the value that a filter of equalities describes.
func (f *Filter) demanded() (Object, bool) {
	switch f.op {
	case "eq":
		if f.value == nil {
			return nil, false
		}
		return Object{f.path.attr.Name: f.value}, true
	case "and":
		out := Object{}
		for _, p := range f.parts {
			part, ok := p.demanded()
			if !ok {
				return nil, false
			}
			maps.Copy(out, part)
		}
		return out, true
	}
	return nil, false
}
