package scim

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// URNs of schemas and messages.
const (
	urnUser       = "urn:ietf:params:scim:schemas:core:2.0:User"
	urnEnterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
	urnGroup      = "urn:ietf:params:scim:schemas:core:2.0:Group"
	urnSchema     = "urn:ietf:params:scim:schemas:core:2.0:Schema"
	urnType       = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
	urnConfig     = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
	urnList       = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	urnPatch      = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
	urnError      = "urn:ietf:params:scim:api:messages:2.0:Error"
)

// Types and mutabilities of attributes.
const (
	typeString  = "string"
	typeBoolean = "boolean"
	typeComplex = "complex"
	typeTime    = "dateTime"

	readWrite = "readWrite"
	readOnly  = "readOnly"
	immutable = "immutable"
)

// Bounds of values.
const (
	textMax     = 1024 // Characters of a text.
	listMax     = 100  // Values of an attribute other than members.
	MembersMax  = 20_000
	resourceMax = 64 << 10 // Bytes of a user's attributes together.
)

// attribute is RFC 7643, 7.
type attribute struct {
	Name        string      `json:"name"`
	Type        string      `json:"type"`
	MultiValued bool        `json:"multiValued"`
	Description string      `json:"description"`
	Required    bool        `json:"required"`
	CaseExact   bool        `json:"caseExact"`
	Mutability  string      `json:"mutability"`
	Returned    string      `json:"returned"`
	Uniqueness  string      `json:"uniqueness"`
	Sub         []attribute `json:"subAttributes,omitempty"`
}

type schema struct {
	ID, Name, Description string
	Attributes            []attribute
}

// Kind is a type of resources.
type Kind string

// Kinds of resources; each is the name of its type.
const (
	User  Kind = "User"
	Group Kind = "Group"
)

func (k Kind) word() string { return strings.ToLower(string(k)) }

func (k Kind) endpoint() string { return string(k) + "s" }

func (k Kind) core() schema {
	if k == Group {
		return groupSchema
	}
	return userSchema
}

func (k Kind) extensions() []schema {
	if k == User {
		return []schema{enterpriseSchema}
	}
	return nil
}

func text(name, about string) attribute {
	return attribute{Name: name, Type: typeString, Description: about, Mutability: readWrite, Returned: "default", Uniqueness: "none"}
}

func truth(name, about string) attribute {
	a := text(name, about)
	a.Type = typeBoolean
	return a
}

func complexOf(name, about string, sub ...attribute) attribute {
	a := text(name, about)
	a.Type, a.Sub = typeComplex, sub
	return a
}

func listOf(name, about string) attribute {
	a := complexOf(name, about, text("value", "The value."), text("display", "How it is shown."), text("type", "What it is for, such as work."),
		truth("primary", "Whether it is the preferred one."))
	a.MultiValued = true
	return a
}

func (a attribute) exact() attribute    { a.CaseExact = true; return a }
func (a attribute) required() attribute { a.Required = true; return a }
func (a attribute) unique() attribute   { a.Uniqueness = "server"; return a }
func (a attribute) kept(mutability string) attribute {
	a.Mutability = mutability
	return a
}

var (
	// common are of every resource, RFC 7643 3.1; no schema lists them.
	common = []attribute{
		text("id", "The resource's id here.").exact().kept(readOnly).unique(),
		text("externalId", "The resource's id in the directory.").exact(),
		complexOf("meta", "What is known of the record.", text("resourceType", "").kept(readOnly).exact(), timeOf("created"), timeOf("lastModified"),
			text("location", "").kept(readOnly).exact(), text("version", "").kept(readOnly).exact()).kept(readOnly),
	}
	userSchema = schema{urnUser, "User", "A person of the directory.", []attribute{
		text("userName", "The name that the person signs in with at the directory, usually an email address.").required().unique(),
		complexOf("name", "The person's name.", text("formatted", "The whole name."), text("familyName", "The family name."), text("givenName", "The given name."),
			text("middleName", "The middle names."), text("honorificPrefix", "Such as Dr."), text("honorificSuffix", "Such as III.")),
		text("displayName", "The name that is shown."),
		text("nickName", "The casual name."),
		text("profileUrl", "A page about the person.").exact(),
		text("title", "Such as Vice President."),
		text("userType", "Such as Contractor."),
		text("preferredLanguage", "Such as en-US."),
		text("locale", "Such as en-US."),
		text("timezone", "Such as Europe/Lisbon."),
		truth("active", "Whether the person may sign in. A person who may not loses sessions, keys and roles, and the record stays."),
		listOf("emails", "Email addresses."),
		listOf("phoneNumbers", "Phone numbers."),
		listOf("addresses", "Not used.").addresses(),
		listOf("roles", "Not used: roles are bound to groups in Corvo."),
		groupsOfUser,
	}}
	groupsOfUser = attribute{
		Name: "groups", Type: typeComplex, MultiValued: true, Description: "The person's groups of this directory.", Mutability: readOnly, Returned: "request", Uniqueness: "none",
		Sub: []attribute{text("value", "The group's id.").exact().kept(readOnly), text("display", "The group's name.").kept(readOnly)},
	}
	enterpriseSchema = schema{urnEnterprise, "EnterpriseUser", "A person's place in a company.", []attribute{
		text("employeeNumber", "The number in the company."), text("costCenter", "The cost center."), text("organization", "The organization."),
		text("division", "The division."), text("department", "The department."),
		complexOf("manager", "The manager.", text("value", "The manager's id.").exact(), text("displayName", "The manager's name.")),
	}}
	groupSchema = schema{urnGroup, "Group", "A group of the directory. Roles are bound to it in Corvo.", []attribute{
		text("displayName", "The group's name.").required().unique(),
		{
			Name: "members", Type: typeComplex, MultiValued: true, Description: "Users of this directory.", Mutability: readWrite, Returned: "default", Uniqueness: "none",
			Sub: []attribute{
				text("value", "The user's id.").exact().kept(immutable), text("display", "The user's name.").kept(immutable),
				text("type", "User.").kept(immutable), text("$ref", "The user's URL.").exact().kept(immutable),
			},
		},
	}}
)

func timeOf(name string) attribute {
	a := text(name, "").kept(readOnly)
	a.Type = typeTime
	return a
}

func (a attribute) addresses() attribute {
	a.Sub = []attribute{text("formatted", "The whole address."), text("streetAddress", "Street."), text("locality", "City."), text("region", "State or region."),
		text("postalCode", "Postal code."), text("country", "Country."), text("type", "What it is for, such as work."), truth("primary", "Whether it is the preferred one.")}
	return a
}

func find(list []attribute, name string) (attribute, bool) {
	for _, a := range list {
		if strings.EqualFold(a.Name, name) {
			return a, true
		}
	}
	return attribute{}, false
}

// Read makes a resource of a request: members are spelled as in the schema, what is not in
// it and what only the service sets is left out.
func (k Kind) Read(in Object) (Object, error) {
	out := Object{}
	for name, v := range in {
		if ext, ok := k.extension(name); ok {
			inner, err := readComplex(attribute{Name: name, Type: typeComplex, Sub: ext.Attributes}, v)
			if err != nil {
				return nil, err
			}
			set(out, ext.ID, inner)
			continue
		}
		a, ok := k.attribute(name)
		if !ok || a.Mutability == readOnly {
			continue
		}
		read, err := a.read(v)
		if err != nil {
			return nil, err
		}
		set(out, a.Name, read)
	}
	return out, k.check(out)
}

// check says what a resource lacks or has too much of.
func (k Kind) check(o Object) error {
	for _, a := range k.core().Attributes {
		if _, there := o[a.Name]; a.Required && !there {
			return invalid(InvalidValue, "%s is required", a.Name)
		}
		list, _ := o[a.Name].([]any)
		primaries := 0
		for _, e := range list {
			if e, ok := e.(Object); ok && e["primary"] == true {
				primaries++
			}
		}
		if primaries > 1 {
			return invalid(InvalidValue, "%s has more than one primary value", a.Name)
		}
	}
	if k == Group {
		return nil
	}
	if raw, err := json.Marshal(o); err != nil || len(raw) > resourceMax {
		return invalid(InvalidValue, "a user can't have more than %d bytes of attributes", resourceMax)
	}
	return nil
}

func (k Kind) extension(urn string) (schema, bool) {
	for _, e := range k.extensions() {
		if strings.EqualFold(e.ID, urn) {
			return e, true
		}
	}
	return schema{}, false
}

func (k Kind) attribute(name string) (attribute, bool) {
	if a, ok := find(k.core().Attributes, name); ok {
		return a, true
	}
	return find(common, name)
}

// set writes a value, or removes the attribute for one that is unassigned.
func set(o Object, name string, v any) {
	switch v := v.(type) {
	case nil:
		delete(o, name)
		return
	case []any:
		if len(v) == 0 {
			delete(o, name)
			return
		}
	case Object:
		if len(v) == 0 {
			delete(o, name)
			return
		}
	}
	o[name] = v
}

// read makes a value of an attribute; nil: it is unassigned.
func (a attribute) read(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	if !a.MultiValued {
		return a.one(v)
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	most := listMax
	if a.Name == "members" {
		most = MembersMax
	}
	if len(list) > most {
		return nil, invalid(TooMany, "%s can't have more than %d values in one request", a.Name, most)
	}
	out := make([]any, 0, len(list))
	for _, e := range list {
		read, err := a.one(e)
		if err != nil {
			return nil, err
		}
		if o, ok := read.(Object); read != nil && (!ok || len(o) > 0) {
			out = append(out, read)
		}
	}
	return out, nil
}

func (a attribute) one(v any) (any, error) {
	switch a.Type {
	case typeComplex:
		return readComplex(a, v)
	case typeBoolean:
		switch v := v.(type) {
		case bool:
			return v, nil
		case string:
			if strings.EqualFold(v, "true") || strings.EqualFold(v, "false") {
				return strings.EqualFold(v, "true"), nil
			}
		}
		return nil, invalid(InvalidValue, "%s must be true or false", a.Name)
	}
	s, ok := v.(string)
	switch {
	case !ok:
		return nil, invalid(InvalidValue, "%s must be a text", a.Name)
	case utf8.RuneCountInString(s) > textMax:
		return nil, invalid(InvalidValue, "%s can't have more than %d characters", a.Name, textMax)
	case strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f || r == utf8.RuneError
	}):
		return nil, invalid(InvalidValue, "%s can't contain control characters", a.Name)
	case s == "":
		return nil, nil
	}
	return s, nil
}

// readComplex takes a plain text for the value that most complex attributes have.
func readComplex(a attribute, v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	if s, ok := v.(string); ok {
		if _, has := find(a.Sub, "value"); has {
			v = Object{"value": s}
		}
	}
	in, ok := v.(Object)
	if !ok {
		return nil, invalid(InvalidValue, "%s must be an object", a.Name)
	}
	out := Object{}
	for name, e := range in {
		sub, ok := find(a.Sub, name)
		if !ok {
			continue
		}
		read, err := sub.read(e)
		if err != nil {
			return nil, err
		}
		set(out, sub.Name, read)
	}
	return out, nil
}
