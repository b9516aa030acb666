package provider

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	"github.com/corvo-cloud/corvo/terraform-provider/internal/cloud"
)

// attributes maps the fields of the API to the attributes of a resource, where a problem
// with a field is best shown. Fields with a path (roles[1]) are found whole or by their first
// part.
type attributes map[string]string

// addError reports err as what went wrong while doing something.
func addError(diags *diag.Diagnostics, doing string, err error) {
	addFieldErrors(diags, doing, err, nil)
}

// addFieldErrors is addError with wrong fields shown at the attributes they came from.
func addFieldErrors(diags *diag.Diagnostics, doing string, err error, known attributes) {
	var e *cloud.Error
	if !errors.As(err, &e) {
		diags.AddError("Couldn't "+doing, err.Error())
		return
	}
	summary, rest := "Couldn't "+doing+headline(e.Kind), 0
	for _, f := range e.Fields {
		first, _, _ := strings.Cut(strings.ReplaceAll(f.Name, "[", "."), ".")
		name, ok := known[f.Name]
		if !ok {
			name, ok = known[first]
		}
		if ok {
			diags.AddAttributeError(path.Root(name), summary, trailer(f.Name+": "+f.Problem, e))
			continue
		}
		rest++
	}
	if rest > 0 || len(e.Fields) == 0 {
		diags.AddError(summary, trailer(e.Message, e))
	}
}

func headline(k cloud.Kind) string {
	return map[cloud.Kind]string{
		cloud.Invalid:         ": the request isn't valid",
		cloud.Unauthenticated: ": the token isn't valid",
		cloud.Denied:          ": the token isn't allowed to do this",
		cloud.NotFound:        ": not found",
		cloud.Exists:          ": it already exists",
		cloud.Conflict:        ": its current state doesn't allow it",
		cloud.Exhausted:       ": a limit was reached",
		cloud.Unavailable:     ": the service can't be reached",
		cloud.Elsewhere:       ": the endpoint isn't a Corvo Cloud",
	}[k]
}

// trailer adds what to do and what to quote to a text.
func trailer(text string, e *cloud.Error) string {
	lines := []string{text}
	if e.Help != "" {
		lines = append(lines, e.Help)
	}
	switch e.Kind {
	case cloud.Denied:
		if e.Permission != "" {
			lines = append(lines, fmt.Sprintf("%s needs the permission %s. Use a management key of a service account that has it; "+
				"data.corvo_current_identity shows what this key can do.", e.Call, e.Permission))
		}
	case cloud.Unauthenticated:
		if e.Reason == reasonNotAccepted {
			break // That is about the token to be exchanged, and not about the provider's.
		}
		lines = append(lines, "Check that it is a key of the service at the provider's endpoint.")
	case cloud.Elsewhere:
		if e.Help != "" {
			lines = []string{e.Help}
			break // That isn't about the endpoint, but about the tenant URL.
		}
		lines = []string{fmt.Sprintf("The endpoint responded with %q, which isn't a response of Corvo Cloud. Check endpoint in the provider block "+
			"or CORVO_ENDPOINT: it must be the address of the console, such as https://app.corvo.cloud, not a tenant URL or a page.", text)}
	case cloud.Conflict:
		if e.Reason == reasonEtag {
			lines = append(lines, "Someone else changed it after this plan was made. That change was kept. "+
				"Run plan again to see it, then apply.")
		}
	default:
	}
	if e.RequestID != "" {
		lines = append(lines, "Request id: "+e.RequestID)
	}
	return strings.Join(lines, "\n\n")
}

// reasonEtag is how the service says that something was changed in between.
const reasonEtag = "ETAG_MISMATCH"

// reasonNotAccepted is how the service refuses to exchange a token.
const reasonNotAccepted = "TOKEN_NOT_ACCEPTED"

func isQueueChanged(err error) bool { return isConflict(err, string(wire.CodeQueueChanged)) }

func isEtagConflict(err error) bool { return isConflict(err, reasonEtag) }

func isConflict(err error, reason string) bool {
	var e *cloud.Error
	return errors.As(err, &e) && e.Kind == cloud.Conflict && e.Reason == reason
}
