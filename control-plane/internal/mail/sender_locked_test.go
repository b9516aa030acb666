package mail

import (
	"errors"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
)

// An email of a master key that was not given is not refused for good: it would be dropped.
func TestDeliver_ALetterOfAnUnknownMasterKeyIsLocked(t *testing.T) {
	t.Parallel()
	lost, err := seal.New(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	given, err := seal.New(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	row, err := newRow(lost, Message{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSender(discard(), given, time.Now, Options{From: "no-reply@corvo.example", Host: "mail.example"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), row); !errors.Is(err, ErrLocked) || errors.Is(err, ErrRefused) {
		t.Errorf("delivered with %v", err)
	}
}
