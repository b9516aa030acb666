package queue

import (
	"strings"
	"testing"
)

const validTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestValidTraceParent(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		validTrace:                      true,
		"01" + validTrace[2:]:           true,
		"01" + validTrace[2:] + "-more": true,
		validTrace + "-more":            false, // Version 00 has four parts.
		"ff" + validTrace[2:]:           false,
		strings.ToUpper(validTrace):     false,
		"":                              false,
		validTrace[:54]:                 false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01": false,
		"01" + validTrace[2:] + "-\r\nx: y":                       false,
		"01" + validTrace[2:] + strings.Repeat("-a", KeyBytesMax): false,
	} {
		if got := ValidTraceParent(s); got != want {
			t.Errorf("ValidTraceParent(%q) = %v", s, got)
		}
	}
}

func FuzzValidTraceParent(f *testing.F) {
	f.Add(validTrace)
	f.Add("01" + validTrace[2:] + "-x")
	f.Fuzz(func(t *testing.T, s string) {
		if ValidTraceParent(s) && (len(s) > KeyBytesMax || strings.ContainsAny(s, "\r\n\x00 ")) {
			t.Fatalf("%q was taken", s)
		}
	})
}

func TestEnqueue_NullIsWhatWasNotGiven(t *testing.T) {
	t.Parallel()
	r := start(t)
	null := []byte(" null\n")
	id := r.enqueue(EnqueueInput{Payload: null, Checkpoint: null})
	if j := r.job(id); string(j.Payload) != "{}" || j.Checkpoint != nil {
		t.Errorf("payload %s, checkpoint %s", j.Payload, j.Checkpoint)
	}
	g := r.one()
	errs, err := r.Ack(r.ctx(), r.caller, []AckInput{{JobID: id, Token: g.LeaseToken, Result: null, Checkpoint: null}})
	if err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	if j := r.job(id); j.Result != nil || j.Checkpoint != nil {
		t.Errorf("result %s, checkpoint %s", j.Result, j.Checkpoint)
	}
}
