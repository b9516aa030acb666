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

func largePayload(word string) json.RawMessage {
	return json.RawMessage(newLoad(word).largePayload(rand.New(rand.NewPCG(1, 1))))
}

// Whatever of a large job isn't what was sent, or what its worker told, is found.
func TestLarge_WhatIsChangedIsFound(t *testing.T) {
	t.Parallel()
	l, payload := newLoad("acme"), largePayload("acme")
	told := l.answer("j", large, 1, payload)
	changed := bytes.Clone(payload)
	changed[len(changed)/2] ^= 1
	for _, tt := range []struct {
		name          string
		payload, told json.RawMessage
		found         bool
	}{
		{"whole", payload, told, false},
		{"one bit", changed, told, true},
		{"cut off", append(payload[:len(payload)-100:len(payload)-100], `"}`...), told, true},
		{"of another tenant", largePayload("rival"), told, true},
		{"another's result", payload, json.RawMessage(`{"attempt":1,"sum":"x"}`), true},
		{"no result", payload, nil, true},
	} {
		found := l.checkResult("j", &corvo.JobInfo{Queue: large, State: wire.Completed, Attempt: 1, Payload: tt.payload, Result: tt.told})
		if (len(found) > 0) != tt.found {
			t.Errorf("%s: found %q", tt.name, found)
		}
	}
	if len(l.broken) > 0 {
		t.Errorf("a whole job: %q", l.broken)
	}
	if l.answer("j", large, 1, changed); len(l.broken) != 1 {
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
			l := newLoad("acme")
			whole, err := json.Marshal(wire.ExportPage{Jobs: []wire.Job{{ID: "j", Payload: largePayload("acme")}}})
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
			if tt.found == "" && l.Met().Late == 0 {
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
