package cellsecret

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

// followEvery is how often the file is read again. Reading it is cheaper than what it
// would take to hear of every way in which a file, or the link to it, is replaced.
const followEvery = time.Second

// ReadFile reads secrets from a file, one per line; the first one signs.
func ReadFile(path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			out = append(out, line)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	for _, secret := range out {
		if len(secret) < LengthMin {
			return nil, fmt.Errorf("%s has a secret of %d characters, but it needs at least %d", path, len(secret), LengthMin)
		}
	}
	if len(out) > Max {
		return nil, fmt.Errorf("%s has %d lines, but a cell has at most %d secrets at a time", path, len(out), Max)
	}
	return out, nil
}

// Follow replaces the secrets whenever the file changes, until ctx ends. A file that
// cannot be used changes nothing, and is reported once.
func (s *Secrets) Follow(ctx context.Context, path string, log *slog.Logger) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	var said string
	for {
		select {
		case <-tick.C:
			said = s.look(path, log, said)
		case <-ctx.Done():
			return
		}
	}
}

// look reads the file once. It returns what is wrong with it, which was reported.
func (s *Secrets) look(path string, log *slog.Logger, said string) string {
	secrets, err := ReadFile(path)
	var changed bool
	if err == nil {
		changed, err = s.Replace(secrets...)
	}
	switch {
	case err != nil && err.Error() != said:
		log.Error("the cell's secret file can't be used; the secrets read before stay in use", "err", err)
	case changed:
		ids := s.Now().IDs()
		log.Warn("the cell's secrets have changed", "signs_with", ids[0], "accepts", strings.Join(ids, ","))
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
