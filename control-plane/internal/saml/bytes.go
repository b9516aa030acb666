package saml

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/beevik/etree"
	xrv "github.com/mattermost/xml-roundtrip-validator"
)

const (
	// ResponseBytesMax bounds a response after base64.
	ResponseBytesMax = 256 << 10
	elementsMax      = 10_000
	attributesMax    = 30 // Of an element.
	depthMax         = 20
)

var prologue = regexp.MustCompile(`^\s*<\?xml version=["']1\.0["'](\s+encoding=["'](?i:utf-8)["'])?(\s+standalone=["'](yes|no)["'])?\s*\?>`)

// parse reads a document whose form leaves nothing to a parser's taste.
func parse(raw []byte) (*etree.Element, error) {
	if err := checkBytes(raw); err != nil {
		return nil, err
	}
	if err := xrv.Validate(bytes.NewReader(raw)); err != nil {
		return nil, refuse("it isn't well-formed XML")
	}
	doc := etree.NewDocument()
	doc.ReadSettings = etree.ReadSettings{PreserveDuplicateAttrs: true, ValidateInput: true}
	if err := doc.ReadFromBytes(raw); err != nil || doc.Root() == nil || len(doc.ChildElements()) != 1 {
		return nil, refuse("it isn't well-formed XML")
	}
	count := 0
	return doc.Root(), checkTree(doc.Root(), 1, &count)
}

// checkBytes needs no parser: in XML, "<!" begins nothing but a document type, an entity, a
// comment or a CDATA section, and "<?" nothing but the first line or an instruction.
func checkBytes(raw []byte) error {
	switch {
	case len(raw) == 0:
		return refuse("it is empty")
	case len(raw) > ResponseBytesMax:
		return refuse("it is larger than %d KB", ResponseBytesMax>>10)
	case !utf8.Valid(raw):
		return refuse("it isn't UTF-8")
	case bytes.Contains(raw, []byte("<!")):
		return refuse("it contains a document type, an entity, a comment or a CDATA section")
	case bytes.Contains(raw[len(prologue.Find(raw)):], []byte("<?")):
		return refuse("it contains a processing instruction")
	}
	return nil
}

// checkTree looks at each element alone.
func checkTree(el *etree.Element, depth int, count *int) error {
	if *count++; *count > elementsMax {
		return refuse("it has more than %d elements", elementsMax)
	}
	if depth > depthMax {
		return refuse("its elements are nested too deeply")
	}
	if err := checkAttributes(el); err != nil {
		return err
	}
	for _, c := range el.ChildElements() {
		if err := checkTree(c, depth+1, count); err != nil {
			return err
		}
	}
	return nil
}

// checkAttributes refuses two attributes that somebody could take for one another: libraries
// look them up by their local name, and take even a namespace's prefix for one.
func checkAttributes(el *etree.Element) error {
	if len(el.Attr) > attributesMax {
		return refuse("an element has more than %d attributes", attributesMax)
	}
	seen := make(map[string]bool, len(el.Attr))
	for _, a := range el.Attr {
		key := strings.ToLower(a.Key)
		if seen[key] && a.Space != "xmlns" || a.Space != "" && key == "id" {
			return refuse("an element has two attributes of one name, or one that looks like its ID")
		}
		if a.Space != "xmlns" {
			seen[key] = true
		}
		if a.Space != "" && ours[a.Key] {
			return refuse("an attribute of another namespace has the name of one of SAML's")
		}
	}
	return nil
}

// ours are the attributes that are read.
var ours = map[string]bool{
	"ID": true, "Version": true, "IssueInstant": true, "Destination": true, "InResponseTo": true, "Recipient": true, "NotBefore": true, "NotOnOrAfter": true,
	"Method": true, "Format": true, "Algorithm": true, "URI": true, "Name": true, "FriendlyName": true, "Value": true, "PrefixList": true, "SessionNotOnOrAfter": true,
}
