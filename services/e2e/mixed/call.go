package mixed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// callWait is for calls that don't wait.
const callWait = 2 * time.Second

// call makes one call, one time.
func (l *Load) call(c *http.Client, method, path string, body, answer any) error {
	ctx, cancel := context.WithTimeout(context.Background(), callWait)
	defer cancel()
	res, err := l.ask(ctx, c, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil || answer == nil {
		return err
	}
	return json.Unmarshal(all, answer)
}

// ask makes one call. Whatever is no answer to it is an error.
func (l *Load) ask(ctx context.Context, c *http.Client, method, path string, body any) (*http.Response, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, l.URL+"/api/v1"+path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-API-Key", l.Key)
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= 300 {
		_ = res.Body.Close()
		return nil, statusError(res.StatusCode)
	}
	return res, nil
}

// statusError is that of an answer which says no.
type statusError int

func (s statusError) Error() string { return fmt.Sprintf("answered %d", int(s)) }
