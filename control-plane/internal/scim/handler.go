package scim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
)

const (
	// Base is where the protocol is served.
	Base = "/scim/v2"
	// ContentType is the protocol's own; application/json is taken, too.
	ContentType = "application/scim+json"

	countDefault = 100
	countMax     = 200
)

// Handler answers the protocol under Base, for one directory: the Backend that of gives for
// a request whose caller is known.
type Handler struct {
	Backend func(*http.Request) Backend
	// URL is that of Base, as clients see it.
	URL string
	Log *slog.Logger
	// Note learns how each request ended; nil: it was answered. May be nil.
	Note func(*http.Request, *Error)
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := h.route(w, r)
	var refusal *Error
	if err != nil {
		refusal = h.refusal(r, err)
		Write(w, refusal)
	}
	if h.Note != nil {
		h.Note(r, refusal)
	}
}

func (h *Handler) refusal(r *http.Request, err error) *Error {
	if e, ok := As(err); ok {
		return e
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return Refuse(http.StatusRequestEntityTooLarge, TooMany, "the body can't be larger than %d bytes", BodyMax)
	case r.Context().Err() != nil:
		return Refuse(http.StatusServiceUnavailable, "", "the request was cancelled")
	}
	h.Log.ErrorContext(r.Context(), "directory sync", "method", r.Method, "path", r.URL.Path, "error", err)
	return Refuse(http.StatusInternalServerError, "", "something went wrong on our side; try again")
}

// Write answers with a refusal.
func Write(w http.ResponseWriter, e *Error) {
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	write(w, e.Status, e.body())
}

func write(w http.ResponseWriter, status int, body Object) {
	raw, err := json.Marshal(body)
	if err != nil { // Not possible: it was made of JSON.
		status, raw = http.StatusInternalServerError, []byte("{}")
	}
	w.Header().Set("Content-Type", ContentType)
	w.WriteHeader(status)
	_, _ = w.Write(raw) // The client may be gone.
}

func (h *Handler) route(w http.ResponseWriter, r *http.Request) error {
	rest, ok := strings.CutPrefix(r.URL.Path, Base+"/")
	if !ok {
		return h.unknown(r)
	}
	first, id, hasID := strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	if strings.Contains(id, "/") {
		return h.unknown(r)
	}
	switch first {
	case "Users":
		return h.resources(w, r, User, id, hasID)
	case "Groups":
		return h.resources(w, r, Group, id, hasID)
	case "ServiceProviderConfig", "ResourceTypes", "Schemas":
		return h.discovery(w, r, first, id)
	case "Me", "Bulk", ".search":
		return Refuse(http.StatusNotImplemented, "", "%s isn't supported", first)
	}
	return h.unknown(r)
}

func (*Handler) unknown(*http.Request) error {
	return Refuse(http.StatusNotFound, "", "there is nothing at this path; the endpoints are Users, Groups, ServiceProviderConfig, ResourceTypes and Schemas, under %s", Base)
}

func (h *Handler) resources(w http.ResponseWriter, r *http.Request, k Kind, id string, one bool) error {
	if id == ".search" {
		return Refuse(http.StatusNotImplemented, "", "POST .search isn't supported; use GET with a filter")
	}
	q := r.URL.Query()
	p, err := k.readProjection(q.Get("attributes"), q.Get("excludedAttributes"))
	if err != nil {
		return err
	}
	c := call{h, w, r, k, p, h.Backend(r)}
	switch {
	case !one && r.Method == http.MethodGet:
		return c.list()
	case !one && r.Method == http.MethodPost:
		return c.create()
	case one && r.Method == http.MethodGet:
		return c.get(id)
	case one && r.Method == http.MethodPut:
		return c.update(id, c.replaced)
	case one && r.Method == http.MethodPatch:
		return c.update(id, c.patched)
	case one && r.Method == http.MethodDelete:
		return c.delete(id)
	}
	allowed := "GET, POST"
	if one {
		allowed = "GET, PUT, PATCH, DELETE"
	}
	return notAllowed(w, r, allowed)
}

func notAllowed(w http.ResponseWriter, r *http.Request, allowed string) error {
	w.Header().Set("Allow", allowed)
	return Refuse(http.StatusMethodNotAllowed, "", "%s isn't possible here; use %s", r.Method, allowed)
}

// call is a request about resources.
type call struct {
	*Handler
	w       http.ResponseWriter
	r       *http.Request
	kind    Kind
	shown   projection
	backend Backend
}

func (c call) members() bool {
	return c.kind == Group && c.shown.wants("members", false) || c.kind == User && c.shown.wants(groupsOfUser.Name, true)
}

func (c call) list() error {
	q := Query{Members: c.members()}
	values := c.r.URL.Query()
	start, err := number(values.Get("startIndex"), 1)
	if err != nil {
		return err
	}
	if q.Count, err = number(values.Get("count"), countDefault); err != nil {
		return err
	}
	q.Start, q.Count = max(start, 1)-1, min(max(q.Count, 0), countMax)
	if text := values.Get("filter"); text != "" {
		if q.Filter, err = ParseFilter(c.kind, text); err != nil {
			return err
		}
	}
	found, err := c.backend.List(c.r.Context(), c.kind, q)
	if err != nil {
		return err
	}
	shown := make([]any, len(found.Resources))
	for i, res := range found.Resources {
		shown[i] = res.show(c.URL, c.shown)
	}
	write(c.w, http.StatusOK, listed(shown, found.Total, q.Start+1))
	return nil
}

func listed(all []any, total, start int) Object {
	return Object{"schemas": []any{urnList}, "totalResults": total, "startIndex": start, "itemsPerPage": len(all), "Resources": all}
}

func number(text string, usual int) (int, error) {
	if text == "" {
		return usual, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, invalid(InvalidValue, "startIndex and count must be whole numbers")
	}
	return int(n), nil
}

// body reads the request's body.
func (c call) body() (Object, error) {
	media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || media != ContentType && media != "application/json" {
		return nil, Refuse(http.StatusUnsupportedMediaType, "", "send the body as %s", ContentType)
	}
	raw, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, BodyMax))
	if err != nil {
		return nil, err
	}
	return Decode(raw)
}

func (c call) create() error {
	body, err := c.body()
	if err != nil {
		return err
	}
	o, err := c.kind.Read(body)
	if err != nil {
		return err
	}
	ids, _, err := Members(o)
	if err != nil {
		return err
	}
	made, err := c.backend.Create(c.r.Context(), c.kind, o, ids)
	if err != nil {
		return err
	}
	c.answer(http.StatusCreated, made)
	return nil
}

func (c call) answer(status int, r Resource) {
	c.w.Header().Set("ETag", r.ETag())
	c.w.Header().Set("Location", r.location(c.URL))
	write(c.w, status, r.show(c.URL, c.shown))
}

func (c call) get(id string) error {
	r, err := c.backend.Get(c.r.Context(), c.kind, id, c.members())
	if err != nil {
		return err
	}
	if tags := c.r.Header.Get("If-None-Match"); tags != "" && among(tags, r) {
		c.w.Header().Set("ETag", r.ETag())
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	c.answer(http.StatusOK, r)
	return nil
}

// among reports whether a header names the version of a resource. What is weak and what is
// not makes no difference.
func among(tags string, r Resource) bool {
	for tag := range strings.SplitSeq(tags, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == "*" || tag == strings.TrimPrefix(r.ETag(), "W/") {
			return true
		}
	}
	return false
}

// precondition refuses what was decided on another version.
func (c call) precondition(r Resource) error {
	if tags := c.r.Header.Get("If-Match"); tags != "" && !among(tags, r) {
		return Refuse(http.StatusPreconditionFailed, "", "the %s has changed since (its version is %s); read it again", c.kind.word(), r.ETag())
	}
	return nil
}

func (c call) update(id string, made func(Object) (Change, error)) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	change, err := made(body)
	if err != nil {
		return err
	}
	r, err := c.backend.Update(c.r.Context(), c.kind, id, func(r Resource) (Object, []MemberOp, error) {
		if err := c.precondition(r); err != nil {
			return nil, nil, err
		}
		next, ops, err := change(r)
		if _, there := next["active"]; err == nil && !there && c.kind == User {
			set(next, "active", r.Attributes["active"]) // Whoever leaves it open brings nobody back.
		}
		return next, ops, err
	})
	if err != nil {
		return err
	}
	if c.r.Method == http.MethodPatch && c.kind == Group && c.r.URL.Query().Get("attributes") == "" {
		// The members may be thousands; RFC 7644 3.5.2 leaves the choice.
		c.w.Header().Set("ETag", r.ETag())
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if c.members() {
		if r, err = c.backend.Get(c.r.Context(), c.kind, id, true); err != nil {
			return err
		}
	}
	c.answer(http.StatusOK, r)
	return nil
}

// replaced is a PUT.
func (c call) replaced(body Object) (Change, error) {
	o, err := c.kind.Read(body)
	if err != nil {
		return nil, err
	}
	ids, _, err := Members(o)
	if err != nil {
		return nil, err
	}
	return func(r Resource) (Object, []MemberOp, error) {
		next := clone(o).(Object)
		if c.kind == User {
			return next, nil, nil
		}
		return next, []MemberOp{{Replace: true, Add: ids}}, nil
	}, nil
}

func (c call) patched(body Object) (Change, error) {
	if _, err := c.kind.operations(body); err != nil {
		return nil, err
	}
	return func(r Resource) (Object, []MemberOp, error) { return c.kind.Patch(r.Attributes, body) }, nil
}

func (c call) delete(id string) error {
	if err := c.backend.Delete(c.r.Context(), c.kind, id, c.precondition); err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// Same reports whether two resources say the same.
func Same(a, b Object) bool { return reflect.DeepEqual(a, b) }

func (h *Handler) discovery(w http.ResponseWriter, r *http.Request, what, id string) error {
	if r.Method != http.MethodGet {
		return notAllowed(w, r, "GET")
	}
	if r.URL.Query().Get("filter") != "" {
		return Refuse(http.StatusForbidden, "", "%s can't be filtered", what)
	}
	if what == "ServiceProviderConfig" {
		if id != "" {
			return h.unknown(r)
		}
		write(w, http.StatusOK, h.config())
		return nil
	}
	all := h.types()
	if what == "Schemas" {
		all = h.schemas()
	}
	if id == "" {
		write(w, http.StatusOK, listed(all, len(all), 1))
		return nil
	}
	for _, e := range all {
		if o := e.(Object); o["id"] == id {
			write(w, http.StatusOK, o)
			return nil
		}
	}
	return Refuse(http.StatusNotFound, "", "%s has nothing of this id", what)
}

func (h *Handler) config() Object {
	supported := func(yes bool) Object { return Object{"supported": yes} }
	return Object{
		"schemas": []any{urnConfig}, "patch": supported(true), "etag": supported(true), "sort": supported(false), "changePassword": supported(false),
		"bulk":   Object{"supported": false, "maxOperations": 0, "maxPayloadSize": 0},
		"filter": Object{"supported": true, "maxResults": countMax},
		"authenticationSchemes": []any{Object{
			"type": "oauthbearertoken", "name": "Bearer token", "description": "A token of a connection's directory sync: Authorization: Bearer corvo_scim_…", "primary": true,
		}},
		"meta": Object{"resourceType": "ServiceProviderConfig", "location": h.URL + "/ServiceProviderConfig"},
	}
}

func (h *Handler) types() (out []any) {
	for _, k := range []Kind{User, Group} {
		o := Object{
			"schemas": []any{urnType}, "id": string(k), "name": string(k), "endpoint": "/" + k.endpoint(), "description": k.core().Description, "schema": k.core().ID,
			"meta": Object{"resourceType": "ResourceType", "location": h.URL + "/ResourceTypes/" + string(k)},
		}
		var extensions []any
		for _, e := range k.extensions() {
			extensions = append(extensions, Object{"schema": e.ID, "required": false})
		}
		set(o, "schemaExtensions", extensions)
		out = append(out, o)
	}
	return out
}

func (h *Handler) schemas() (out []any) {
	for _, s := range []schema{userSchema, enterpriseSchema, groupSchema} {
		out = append(out, Object{
			"schemas": []any{urnSchema}, "id": s.ID, "name": s.Name, "description": s.Description, "attributes": s.Attributes,
			"meta": Object{"resourceType": "Schema", "location": fmt.Sprintf("%s/Schemas/%s", h.URL, s.ID)},
		})
	}
	return out
}
