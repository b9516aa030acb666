package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// collection is a list of things behind one address of the API.
type collection[T any] struct {
	path   string // Under /api/v1.
	query  url.Values
	member string // Of the answer, that holds the list; "": the answer is the list.
	header []string
	row    func(thing *T, now time.Time) []string
	empty  string // Says how to make the first one.
}

// list prints at most limit things, page by page; 0 is all.
func list[T any](ctx context.Context, s *session, c collection[T], limit int) error {
	if limit < 0 {
		return usagef("--limit can't be negative")
	}
	a, err := s.api()
	if err != nil {
		return err
	}
	raw, more, err := c.read(ctx, a, limit)
	if err != nil {
		return err
	}
	rows := make([][]string, len(raw))
	for i, r := range raw {
		var thing T
		if err := json.Unmarshal(r, &thing); err != nil {
			return &Failure{Exit: ExitFail, Code: "BAD_ANSWER", What: "can't read the response", Why: err.Error()}
		}
		rows[i] = c.row(&thing, time.Now())
	}
	err = s.emitAll(raw, func(w io.Writer) {
		if len(rows) > 0 {
			s.table(w, c.header, rows)
		}
	})
	switch {
	case err != nil:
		return err
	case more:
		s.hintf("there are more; --limit 0 shows all of them")
	case len(raw) == 0 && c.empty != "":
		s.hintf("%s", c.empty)
	}
	return nil
}

func (c collection[T]) read(ctx context.Context, a *api, limit int) (raw []json.RawMessage, more bool, err error) {
	query := url.Values{}
	for name, values := range c.query {
		query[name] = values
	}
	for {
		size := listPage
		if limit > 0 {
			size = min(listPage, limit-len(raw))
		}
		if c.member != "" {
			query.Set("limit", strconv.Itoa(size))
		}
		r, err := a.get(ctx, strings.TrimSuffix("/api/v1"+c.path+"?"+query.Encode(), "?"))
		if err != nil {
			return nil, false, err
		}
		page, cursor, err := c.page(a, r)
		if err != nil {
			return nil, false, err
		}
		raw = append(raw, page...)
		if cursor == "" || limit > 0 && len(raw) >= limit {
			return raw, cursor != "", nil
		}
		query.Set("cursor", cursor)
	}
}

func (c collection[T]) page(a *api, r *reply) (page []json.RawMessage, cursor string, err error) {
	if c.member == "" {
		return page, "", a.decode(r, &page)
	}
	var answer map[string]json.RawMessage
	if err := a.decode(r, &answer); err != nil {
		return nil, "", err
	}
	if err := a.decode(&reply{body: answer[c.member]}, &page); err != nil {
		return nil, "", err
	}
	var more bool
	_ = json.Unmarshal(answer["cursor"], &cursor) // Absent: there is one page.
	_ = json.Unmarshal(answer["has_more"], &more)
	if !more {
		cursor = ""
	}
	return page, cursor, nil
}

// show prints the one thing that a call answers with.
func show[T any](ctx context.Context, s *session, ask call, text func(w io.Writer, thing *T, now time.Time)) error {
	a, err := s.api()
	if err != nil {
		return err
	}
	r, err := a.send(ctx, ask)
	if err != nil {
		return err
	}
	var thing T
	if err := a.decode(r, &thing); err != nil {
		return err
	}
	return s.emit(r.body, func(w io.Writer) { text(w, &thing, time.Now()) })
}

// eachThing makes a call for each of the names, and prints what became of them.
func (s *session) eachThing(ctx context.Context, names []string, ask func(name string) call) error {
	_, err := s.forEachNamed(ctx, "id", names, ask)
	return err
}

func limitFlag(c *cobra.Command, limit *int) {
	c.Flags().IntVar(limit, "limit", 50, "at most `N`; 0 for all")
}

// facts prints what is known of a thing, a line each; what is empty is left out.
type facts struct {
	w   io.Writer
	now time.Time
}

func (f facts) line(name, value string) {
	if value != "" && value != "null" {
		fmt.Fprintf(f.w, "%-14s %s\n", name, value)
	}
}

func (f facts) at(name string, t time.Time) {
	if !t.IsZero() {
		f.line(name, t.Format(time.RFC3339)+"  "+ago(t, f.now))
	}
}
