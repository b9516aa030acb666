// Package faulttest owns peers that misbehave: a handler that stands before another one
// and does to calls what networks and busy servers do, a listener that fails once, and a
// client that takes no answer.
//
// It must not know what is called. Surprising: a call whose answer is lost has been made.
package faulttest

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
)

// Fate is what becomes of a call. The zero value lets it pass.
type Fate struct {
	// Status refuses the call with Header, and nobody is asked.
	Status int
	Header map[string]string
	// Hang answers nothing until the caller leaves, and nobody is asked.
	Hang bool
	// Edit is told the answer before anybody else, and may change it.
	Edit func(status int, body []byte) []byte
	// Lose breaks the connection instead of answering, Half in the middle of the answer.
	Lose, Half bool
}

// Peer lets calls to a handler pass until Decide says otherwise.
type Peer struct {
	next http.Handler
	name func(*http.Request) string

	mu     sync.Mutex                      // Guards what follows.
	decide func(call string, nth int) Fate // Nil lets everything pass.
	calls  map[string]int
}

// New stands before next. It counts calls by name; nil counts all of them as one.
func New(next http.Handler, name func(*http.Request) string) *Peer {
	if name == nil {
		name = func(*http.Request) string { return "" }
	}
	return &Peer{next: next, name: name, calls: make(map[string]int)}
}

// Decide has the fate of every call from now on decided by its name, and how many of that
// name there were since, itself included. Nil lets everything pass.
func (p *Peer) Decide(fate func(call string, nth int) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide, p.calls = fate, make(map[string]int)
}

// Calls are how many calls of each name there were since the last Decide.
func (p *Peer) Calls() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls)
}

// ServeHTTP implements http.Handler.
func (p *Peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch f := p.fate(p.name(r)); {
	case f.Status != 0:
		for name, value := range f.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(f.Status)
	case f.Hang:
		_, _ = io.Copy(io.Discard, r.Body) // A server notices that its client left once the body was read.
		<-r.Context().Done()
	case f.Edit != nil || f.Lose || f.Half:
		p.spoil(w, r, f)
	default:
		p.next.ServeHTTP(w, r)
	}
}

func (p *Peer) fate(call string) Fate {
	p.mu.Lock()
	p.calls[call]++
	nth, decide := p.calls[call], p.decide
	p.mu.Unlock()
	if decide == nil {
		return Fate{}
	}
	return decide(call, nth)
}

// spoil makes the call and does something to its answer.
func (p *Peer) spoil(w http.ResponseWriter, r *http.Request, f Fate) {
	answer := httptest.NewRecorder()
	p.next.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	if f.Edit != nil {
		body = f.Edit(answer.Code, body)
	}
	if f.Lose {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), answer.Header())
	w.Header().Del("Content-Length")
	w.WriteHeader(answer.Code)
	if f.Half {
		// A caller that left has no whole answer either.
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush() // As above.
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body) // A caller that left misses nothing.
}
