package faulttest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestPeer_EveryFateIsWhatTheCallerMeets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fate   Fate
		status int // 0: no answer.
		body   string
		cut    bool // The answer is not whole.
		asked  int
	}{
		"passes":  {Fate{}, 201, "made", false, 1},
		"refused": {Fate{Status: 503, Header: map[string]string{"Retry-After": "1"}}, 503, "", false, 0},
		"edited":  {Fate{Edit: func(status int, body []byte) []byte { return append(body, byte('0'+status/100)) }}, 201, "made2", false, 1},
		"lost":    {Fate{Lose: true}, 0, "", false, 1},
		"cut":     {Fate{Half: true}, 201, "ma", true, 1},
		"hangs":   {Fate{Hang: true}, 0, "", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			p := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked++
				w.WriteHeader(201)
				_, _ = io.WriteString(w, "made")
			}), func(r *http.Request) string { return r.URL.Path })
			server := httptest.NewServer(p)
			t.Cleanup(server.Close)
			p.Decide(func(call string, nth int) Fate {
				if call == "/first" && nth == 1 {
					return c.fate
				}
				return Fate{}
			})
			status, header, body, err := post(t, server.URL+"/first", 200*time.Millisecond)
			if status != c.status || body != c.body || (err != nil) != (c.cut || status == 0) || asked != c.asked {
				t.Errorf("%d %q %v, asked %d times", status, body, err, asked)
			}
			if header.Get("Retry-After") != c.fate.Header["Retry-After"] {
				t.Errorf("header %v", header)
			}
			for _, next := range []string{"/first", "/other"} {
				if status, _, _, err := post(t, server.URL+next, time.Minute); status != 201 {
					t.Errorf("then %s: %d %v", next, status, err)
				}
			}
			if calls := p.Calls(); calls["/first"] != 2 || calls["/other"] != 1 {
				t.Errorf("calls: %v", calls)
			}
		})
	}
}

func post(t *testing.T, url string, limit time.Duration) (status int, header http.Header, body string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(text), err
}
