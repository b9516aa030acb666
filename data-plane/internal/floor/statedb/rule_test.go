package statedb

import (
	"errors"
	"io"
	"testing"
)

func TestEnded_IsTheErrorThatEndedARuleAndNoOtherPanic(t *testing.T) {
	t.Parallel()
	run := func(rule func()) (err error) {
		defer func() { err = Ended(recover()) }()
		rule()
		return nil
	}
	if err := run(func() { Check(nil); Must(1, nil) }); err != nil {
		t.Errorf("a rule that read everything: %v", err)
	}
	if err := run(func() { Must(1, io.EOF); t.Error("the rule went on") }); !errors.Is(err, io.EOF) {
		t.Errorf("a rule that could not read: %v", err)
	}
	defer func() {
		if bug := recover(); bug != "a bug" {
			t.Errorf("the panic of a rule became %v", bug)
		}
	}()
	_ = run(func() { panic("a bug") })
}
