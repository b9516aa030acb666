package mixed

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
	corvo "github.com/corvo-cloud/corvo/sdks/go"
)

// Whatever of a large job isn't what was sent, or what its worker told, is found.
func TestLarge_WhatIsChangedIsFound(t *testing.T) {
	t.Parallel()
	l := New("", "", "acme")
	payload := l.largePayload(rand.New(rand.NewPCG(1, 1)))
	result, err := l.handleLarge("j", payload)
	if err != nil || len(l.broken) > 0 {
		t.Fatalf("a whole job: %v, %q", err, l.broken)
	}
	changed := bytes.Clone(payload)
	changed[len(changed)/2] ^= 1
	for _, tt := range []struct {
		name            string
		payload, result json.RawMessage
		state           wire.State
		found           bool
	}{
		{"whole", payload, result, wire.Completed, false},
		{"waiting", payload, nil, wire.Pending, false},
		{"one bit", changed, result, wire.Completed, true},
		{"cut off", append(payload[:len(payload)-100:len(payload)-100], `"}`...), result, wire.Completed, true},
		{"of another tenant", New("", "", "rival").largePayload(rand.New(rand.NewPCG(1, 1))), result, wire.Completed, true},
		{"another's result", payload, json.RawMessage(`{"sum":"x"}`), wire.Completed, true},
		{"no result", payload, nil, wire.Completed, true},
	} {
		found := l.checkLarge("j", &corvo.JobInfo{Queue: large, State: tt.state, Payload: tt.payload, Result: tt.result})
		if (len(found) > 0) != tt.found {
			t.Errorf("%s: found %q", tt.name, found)
		}
	}
	if _, _ = l.handleLarge("j", changed); len(l.broken) != 1 {
		t.Errorf("a worker was handed a changed payload, found %q", l.broken)
	}
}

// A page that comes after the pause is read to its end and judged.
func TestReadLate_JudgesWhatComesAfterThePause(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		body  func(whole []byte) []byte
		found string
	}{
		{"whole", func(b []byte) []byte { return b }, ""},
		{"cut off", func(b []byte) []byte { return b[:len(b)-1] }, "a page that was read to its end"},
		{"changed", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, "a page shows"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := New("http://tenant", "", "acme")
			whole, err := json.Marshal(wire.ExportPage{Jobs: []wire.Job{{ID: "j", Payload: l.largePayload(rand.New(rand.NewPCG(1, 1)))}}})
			if err != nil {
				t.Fatal(err)
			}
			stop := make(chan struct{})
			go l.readLate(answers(tt.body(whole)), stop)
			time.Sleep(time.Minute)
			close(stop)
			synctest.Wait()
			if found := strings.Join(l.broken, "\n"); !strings.Contains(found, tt.found) || tt.found == "" && found != "" {
				t.Errorf("%s: found %.200q", tt.name, found)
			}
			if _, late := l.Met(); tt.found == "" && late == 0 {
				t.Error("nothing was read late")
			}
		})
	}
}

// answers gives the body to every export, and no jobs to every fetch.
type answers []byte

// RoundTrip implements http.RoundTripper.
func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if r.Method == http.MethodPost {
		_, _ = w.WriteString(`{"jobs":[]}`)
	} else {
		_, _ = w.Write(a)
	}
	return w.Result(), nil
}
