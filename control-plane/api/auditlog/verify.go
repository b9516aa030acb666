package auditlog

import (
	"bufio"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	// lineBytesMax is far above what an entry can have.
	lineBytesMax = 8 << 20
	// problemsMax bounds what a report lists; the first one matters.
	problemsMax = 20
)

// Report is the verdict on a file.
type Report struct {
	// Valid: the file is as it was exported, and agrees with every signed head in it.
	Valid    bool      `json:"valid"`
	TenantID string    `json:"tenant_id,omitempty"`
	Tenant   string    `json:"tenant,omitempty"`
	Exported string    `json:"exported_at,omitempty"`
	From     int64     `json:"from"`
	To       int64     `json:"to"`
	Entries  int64     `json:"entries"`
	Heads    int       `json:"heads"`
	FirstSeq int64     `json:"first_seq"`
	KeyIDs   []string  `json:"key_ids"`
	Problems []Problem `json:"problems,omitempty"`
	// More problems were found than are listed.
	More bool `json:"more_problems,omitempty"`
}

// Problem is something wrong with a line. Line is 0 if it is about the end of the file.
type Problem struct {
	Line int    `json:"line,omitempty"`
	Seq  int64  `json:"seq,omitempty"`
	ID   string `json:"id,omitempty"`
	Text string `json:"problem"`
}

// String is for people.
func (p Problem) String() string {
	var where []string
	if p.Line > 0 {
		where = append(where, fmt.Sprintf("line %d", p.Line))
	}
	if p.Seq > 0 {
		where = append(where, fmt.Sprintf("entry %d", p.Seq))
	}
	if p.ID != "" {
		where = append(where, p.ID)
	}
	if len(where) == 0 {
		return p.Text
	}
	return strings.Join(where, ", ") + ": " + p.Text
}

// Verify checks a file that was exported in the native format. Keys that sign in it must
// be among trusted, if any are given; otherwise the file is checked against the keys that it
// has itself, which whoever made it chose. The error is about reading.
func Verify(file io.Reader, trusted ...string) (Report, error) {
	v := verifier{trusted: trusted, keys: make(map[string]ed25519.PublicKey), heads: make(map[int64][]head)}
	lines := bufio.NewScanner(file)
	lines.Buffer(make([]byte, 0, 64<<10), lineBytesMax)
	for lines.Scan() {
		v.line++
		if text := lines.Bytes(); len(strings.TrimSpace(string(text))) > 0 {
			v.read(text)
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		v.line++
		v.problem(object{}, "it is longer than %d bytes", lineBytesMax)
	} else if err != nil {
		return v.report, fmt.Errorf("read audit log: %w", err)
	}
	v.end()
	return v.report, nil
}

// verifier is a file under way.
type verifier struct {
	report  Report
	trusted []string
	keys    map[string]ed25519.PublicKey
	line    int
	export  object // Nil before the first line.
	// heads are those whose entry has not come yet, by its number.
	heads map[int64][]head
	// seq and hash are of the last entry.
	seq  int64
	hash string
}

func (v *verifier) problem(o object, format string, args ...any) {
	if len(v.report.Problems) == problemsMax {
		v.report.More = true
		return
	}
	p := Problem{Line: v.line, Text: fmt.Sprintf(format, args...)}
	if o.text("kind") == KindEntry {
		p.Seq, p.ID = o.number("seq"), o.text("id")
	}
	v.report.Problems = append(v.report.Problems, p)
}

func (v *verifier) read(text []byte) {
	o, err := readObject(text)
	if err != nil {
		v.problem(object{}, "%v", err)
		return
	}
	kind := o.text("kind")
	if v.export == nil {
		if kind != KindExport {
			v.problem(o, "the file doesn't begin with the line of an export; verify a file that was exported in the native format")
		}
		v.begin(o)
		return
	}
	if t := o.text("tenant_id"); kind != KindKey && t != v.report.TenantID {
		v.problem(o, "it belongs to tenant %q, and the file to %q", t, v.report.TenantID)
	}
	switch kind {
	case KindKey:
		v.key(o)
	case KindEntry:
		v.entry(o)
	case KindHead:
		v.head(o)
	default:
		v.problem(o, "a line of kind %q isn't part of an export", kind)
	}
}

func (v *verifier) begin(o object) {
	v.export = o
	r := &v.report
	r.TenantID, r.Tenant, r.Exported = o.text("tenant_id"), o.text("tenant"), o.text("at")
	r.From, r.To, r.FirstSeq = o.number("from"), o.number("to"), o.number("first_seq")
	v.seq, v.hash = r.From-1, o.text("after_hash")
	if o.text("kind") == KindExport && o.number("version") != 1 {
		v.problem(o, "the file has a later version than this program knows; use a newer one")
	}
	if r.From == r.FirstSeq && v.hash != o.text("first_after") {
		v.problem(o, "the first line contradicts itself about where the chain begins")
	}
}

func (v *verifier) key(o object) {
	public, err := base64.StdEncoding.DecodeString(o.text("public_key"))
	if err != nil || len(public) != ed25519.PublicKeySize || o.text("algorithm") != algorithm {
		v.problem(o, "it isn't an Ed25519 public key")
		return
	}
	id := KeyID(public)
	if id != o.text("key_id") {
		v.problem(o, "the public key isn't the one that its id %q names", o.text("key_id"))
		return
	}
	if !slices.Contains(v.report.KeyIDs, id) {
		v.report.KeyIDs = append(v.report.KeyIDs, id)
	}
	v.keys[id] = public
}

func (v *verifier) entry(o object) {
	v.report.Entries++
	seq := o.number("seq")
	switch {
	case seq == v.seq+1:
	case seq > v.seq+1:
		v.problem(o, "%s before it", missing(v.seq+1, seq-1))
	default:
		v.problem(o, "it comes after entry %d: entries are repeated or out of order", v.seq)
	}
	if hash := o.hash(); hash != o.text(memberHash) {
		v.problem(o, "its contents were changed: they don't match its hash")
	} else if seq == v.seq+1 && o.text("prev_hash") != v.hash {
		v.problem(o, "it doesn't follow the entry before: that one was changed or replaced")
	}
	v.seq, v.hash = seq, o.text(memberHash)
	for _, h := range v.heads[seq] {
		if h.hash != v.hash {
			v.problem(o, "it isn't the entry that was signed on %s: entries up to it were changed since", h.at)
		}
	}
}

func missing(from, to int64) string {
	if from == to {
		return fmt.Sprintf("entry %d is missing", from)
	}
	return fmt.Sprintf("entries %d to %d are missing", from, to)
}

// head is a signed statement about an entry that follows.
type head struct{ hash, at string }

func (v *verifier) head(o object) {
	v.report.Heads++
	if !v.signed(o) {
		return
	}
	seq := o.number("seq")
	if seq <= v.seq || seq > v.report.To {
		v.problem(o, "it is about entry %d, which doesn't follow in this file", seq)
		return
	}
	v.heads[seq] = append(v.heads[seq], head{hash: o.text(memberHash), at: o.text("at")})
}

func (v *verifier) signed(o object) bool {
	id := o.text("key_id")
	public, known := v.keys[id]
	if !known {
		v.problem(o, "it is signed with key %q, which the file doesn't have", id)
		return false
	}
	if len(v.trusted) > 0 && !slices.Contains(v.trusted, id) {
		v.problem(o, "it is signed with key %q, which isn't one that you trust", id)
		return false
	}
	signature, err := base64.StdEncoding.DecodeString(o.text(memberSignature))
	if err != nil || !ed25519.Verify(public, o.canonical(memberSignature), signature) {
		v.problem(o, "its signature isn't valid: it was changed")
		return false
	}
	return true
}

func (v *verifier) end() {
	if v.export == nil {
		v.line = 0
		v.problem(object{}, "the file is empty")
		return
	}
	last := v.line
	v.line = 1
	v.signed(v.export) // The keys are known by now.
	v.line = 0
	r := &v.report
	switch {
	case v.seq < r.To:
		v.problem(object{}, "the file ends after line %d: %s", last, missing(v.seq+1, r.To))
	case v.seq > r.To:
		v.problem(object{}, "the file has entries after entry %d, the last one that was exported", r.To)
	case v.hash != v.export.text(memberHash):
		v.problem(object{}, "entry %d isn't the one that was exported", r.To)
	}
	if want := v.export.number("heads"); int64(r.Heads) != want {
		v.problem(object{}, "the file has %d signed heads of %d", r.Heads, want)
	}
	r.Valid = len(r.Problems) == 0
}
