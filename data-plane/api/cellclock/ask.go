package cellclock

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/cellsecret"
)

// Path is where a node serves its time.
const Path = "/corvo.cell.clock"

const (
	nonceMax    = 64
	answerBytes = 512
	// wayMax is the longest round trip whose answer is precise enough for a bound
	// of seconds.
	wayMax = 4 * time.Second
	// wallDrift is how much wall and monotonic clock may differ over a round trip; more
	// is a jump, or a machine that slept.
	wallDrift = 100 * time.Millisecond
)

var errAnswer = errors.New("not an answer of a node of this cell")

// Prover signs answers with the first secret of a cell, and accepts those that were
// signed with any. What is signed is no secret: anybody may ask what time it is.
type Prover struct{ keys *cellsecret.Derived[[]byte] }

// NewProver derives keys from the cell's secrets.
func NewProver(secrets *cellsecret.Secrets) (*Prover, error) {
	keys, err := cellsecret.Derive(secrets, func(secret []byte) ([]byte, error) {
		// A key of its own, so that no other use of the cell's secret makes the same MAC.
		key, err := hkdf.Key(sha256.New, secret, nil, "corvo.cell.clock.v1", sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("derive clock key: %w", err)
		}
		return key, nil
	})
	if err != nil {
		return nil, err
	}
	return &Prover{keys}, nil
}

// proves reports whether a holder of one of the secrets made the answer.
func (p *Prover) proves(a answer, nonce string) bool {
	_, keys := p.keys.Values()
	for _, key := range keys {
		if hmac.Equal([]byte(a.Proof), []byte(proof(key, nonce, a.AtNS))) {
			return true
		}
	}
	return false
}

func proof(key []byte, nonce string, at int64) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%d:%s:%d", len(nonce), nonce, at)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// answer is a node's answer.
type answer struct {
	AtNS  int64  `json:"at_ns"`
	Proof string `json:"proof"`
}

// Handler answers with the time of a clock. The request has no signature, because
// signatures expire, and a wrong clock would break that.
func (p *Prover) Handler(clock Clock) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nonce := r.URL.Query().Get("nonce")
		if r.Method != http.MethodGet || nonce == "" || len(nonce) > nonceMax {
			http.Error(w, "ask with GET and a nonce", http.StatusBadRequest)
			return
		}
		wall, _ := clock.Now()
		at := wall.UnixNano()
		_, keys := p.keys.Values()
		body, err := json.Marshal(answer{at, proof(keys[0], nonce, at)})
		if err != nil {
			panic("cellclock: an answer of plain fields does not marshal: " + err.Error())
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(body) // The asker is gone: it asks again.
	})
}

// reading is how far a node's clock is ahead of ours, give or take.
type reading struct {
	ahead time.Duration
	give  time.Duration // Half of the round trip.
	at    time.Duration // Monotonic.
	base  time.Duration // The wall clock minus the monotonic clock, then.
}

// ask compares our clock with that of the node at a base URL.
func (p *Prover) ask(ctx context.Context, client *http.Client, clock Clock, base string) (reading, error) {
	nonce := rand.Text()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+Path+"?nonce="+url.QueryEscape(nonce), nil)
	if err != nil {
		return reading{}, err
	}
	wallSent, sent := clock.Now()
	res, err := client.Do(r)
	if err != nil {
		return reading{}, err
	}
	defer func() { _ = res.Body.Close() }() // Read to its end, or of no use.
	var a answer
	if res.StatusCode != http.StatusOK {
		return reading{}, fmt.Errorf("%w: status %d", errAnswer, res.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, answerBytes)).Decode(&a); err != nil {
		return reading{}, fmt.Errorf("%w: %w", errAnswer, err)
	}
	wall, now := clock.Now()
	if !p.proves(a, nonce) {
		return reading{}, errAnswer
	}
	way := now - sent
	if drift := wall.Sub(wallSent) - way; way > wayMax || drift < -wallDrift || drift > wallDrift {
		return reading{}, errors.New("the answer took too long, or our clock jumped meanwhile")
	}
	return reading{
		ahead: time.Duration(a.AtNS - (wall.UnixNano() - int64(way/2))), give: way / 2, at: now, base: offset(wall, now),
	}, nil
}

// offset is the wall clock minus the monotonic clock.
func offset(wall time.Time, mono time.Duration) time.Duration {
	return time.Duration(wall.UnixNano() - int64(mono))
}
