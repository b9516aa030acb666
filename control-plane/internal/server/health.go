package server

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// ReadyTimeout bounds the checks of /readyz.
const ReadyTimeout = 2 * time.Second

func healthy(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprintln(w, "ok") // The client may be gone.
}

// ready answers 200 if every check passes, else 503. It says which failed but not
// why, because anybody can call it.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), ReadyTimeout)
	defer cancel()
	status, text := http.StatusOK, "ok\n"
	for _, c := range s.options.Ready {
		if err := c.Check(ctx); err != nil {
			s.options.Log.WarnContext(ctx, "not ready", "check", c.Name, "error", err)
			status, text = http.StatusServiceUnavailable, "not ready: "+c.Name+"\n"
			break
		}
	}
	if s.options.Status != nil {
		for _, line := range s.options.Status() {
			text += line + "\n"
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, text) // The client may be gone.
}
