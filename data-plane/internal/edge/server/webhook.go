package server

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/corvo-cloud/corvo/data-plane/internal/edge/queue"
	"github.com/corvo-cloud/corvo/data-plane/internal/edge/shape"
	"github.com/corvo-cloud/corvo/data-plane/internal/fault"
)

// webhookPayload describes the body of an inbound webhook in the document.
const webhookPayload = "WebhookPayload"

// webhookParams are the options of an enqueue that are one word each, and the tags:
// a sender that can only be given an address says them there.
var webhookParams = append(webhookWords(), shape.TextParam("tags", "Tags as key:value, separated by commas."))

func webhookWords() []shape.Param {
	var out []shape.Param
	for _, f := range enqueueShape.Fields() {
		if isWebhookWord(&f) {
			out = append(out, shape.Param{Name: f.Name, Doc: f.Doc, Schema: f.Schema})
		}
	}
	return out
}

// isWebhookWord: the queue stands in the path, the payload is the body.
func isWebhookWord(f *shape.Field[queue.EnqueueInput]) bool {
	return !f.Reserved && f.Name != "queue" && (f.Schema.Type == "string" || f.Schema.Type == "integer")
}

// webhook enqueues whatever somebody else's server posts.
func (c *call) webhook() error {
	body, err := c.body()
	if err != nil {
		return err
	}
	in := queue.EnqueueInput{Queue: c.r.PathValue("name")}
	if in.Payload, err = webhookJSON(body); err != nil {
		return err
	}
	var d shape.Decoder
	readWebhookParams(&d, c.query(&d), &in)
	return c.enqueueOne(&d, in)
}

// webhookJSON is the body as it came if it is JSON, else as a JSON string. JSON that
// readers could take in different ways is refused and not wrapped: its receiver would
// get a text where it expects an object.
func webhookJSON(body []byte) (json.RawMessage, error) {
	value := bytes.Trim(body, " \t\r\n")
	switch {
	case len(value) == 0:
		return nil, nil
	case json.Valid(value):
		if err := shape.Check(value); err != nil {
			return nil, fault.New(fault.Invalid, "PARSE_ERROR", "%s", err)
		}
		return value, nil
	case !utf8.Valid(body):
		return nil, fault.InvalidFields([]fault.Field{{Path: "payload", Message: "must be JSON or UTF-8 text"}})
	default:
		return quote(string(body)), nil // With its line end: a signature may be over it.
	}
}

// quote writes valid UTF-8 as a JSON string.
func quote(text string) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // Strings always encode.
	return bytes.TrimRight(buf.Bytes(), "\n")
}

func readWebhookParams(d *shape.Decoder, q url.Values, in *queue.EnqueueInput) {
	for _, p := range webhookParams {
		text := q.Get(p.Name)
		switch {
		case text == "":
		case !utf8.ValidString(text):
			d.Problem(p.Name, "is not valid UTF-8")
		case p.Name == "tags":
			readTagPairs(d, text, &in.Tags)
		default:
			readWord(d, p, text, in)
		}
	}
}

// readWord reads a parameter as the member of the same name would be read.
func readWord(d *shape.Decoder, p shape.Param, text string, in *queue.EnqueueInput) {
	value := []byte(text)
	if p.Schema.Type == "string" || shape.Check(value) != nil {
		value = quote(text)
	}
	f := enqueueShape.Field(p.Name)
	if msg := f.Read(d, p.Name, value, in); msg != "" {
		d.Problem(p.Name, "%s", msg)
	}
}

func readTagPairs(d *shape.Decoder, text string, tags *map[string]string) {
	for pair := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(pair, ":")
		if !ok {
			d.Problem("tags", "%q is not a tag; use key:value", pair)
			continue
		}
		shape.AddTag(d, "tags", tags, key, value)
	}
}
