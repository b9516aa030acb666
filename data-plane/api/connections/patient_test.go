package connections

import (
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is a listener with an answer to each accept.
type scripted struct {
	net.Listener
	accept func() (net.Conn, error)
}

func (s scripted) Accept() (net.Conn, error) { return s.accept() }
func (scripted) Close() error                { return nil }
func (scripted) Addr() net.Addr              { return &net.TCPAddr{} }

func TestPatient_AcceptsAfterErrorsThatPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _ := net.Pipe()
		began := time.Now()
		var calls []time.Duration
		ln := Patient(scripted{accept: func() (net.Conn, error) {
			calls = append(calls, time.Since(began))
			if len(calls) < 12 {
				return nil, &net.OpError{Op: "accept", Err: syscall.ENOBUFS}
			}
			return conn, nil
		}}, slog.New(slog.DiscardHandler))
		if got, err := ln.Accept(); got != conn || err != nil {
			t.Errorf("accepted %v, %v", got, err)
		}
		if first, last := calls[1]-calls[0], calls[11]-calls[10]; first != backoffMin || last != backoffMax {
			t.Errorf("tried again after %v and at last %v, want %v and %v", first, last, backoffMin, backoffMax)
		}
	})
}

func TestPatient_EndsWithItsListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func() (net.Conn, error) { return nil, syscall.ENOBUFS }
		ln := Patient(scripted{accept: fails}, slog.New(slog.DiscardHandler))
		ended := make(chan error, 1)
		go func() {
			_, err := ln.Accept()
			ended <- err
		}()
		time.Sleep(time.Minute)
		if err := errors.Join(ln.Close(), ln.Close()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed while it waits: %v", err)
		}
		gone := Patient(scripted{accept: func() (net.Conn, error) { return nil, net.ErrClosed }}, slog.New(slog.DiscardHandler))
		if _, err := gone.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed below it: %v", err)
		}
	})
}
