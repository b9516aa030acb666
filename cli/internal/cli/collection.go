package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/corvo-cloud/corvo/data-plane/api/wire"
)

// listPage is the most one call asks for.
const listPage = 1000

// collection is a list of things behind one address of the API.
type collection[T any] struct {
	path   string // Under /api/v1.
	query  url.Values
	member string // Of the answer, that holds the list; "": the answer is the list.
	header []string
	row    func(thing *T) []any
	empty  string // Says how to make the first one.
}

// list prints at most limit things, page by page; 0 is all.
func list[T any](ctx context.Context, s *session, c collection[T], limit int) error {
	if limit < 0 {
		return usagef("--limit can't be negative")
	}
	raw, things, last, err := c.read(ctx, s, limit)
	if err != nil {
		return err
	}
	if err := s.emitAll(raw, func(w io.Writer) { c.print(w, s, things) }); err != nil {
		return err
	}
	if last.Rebuilding {
		progress := ""
		if r := last.Rebuild; r != nil && r.JobsTotal > 0 {
			progress = fmt.Sprintf(" (%d of %d jobs)", r.JobsDone, r.JobsTotal)
		}
		s.talkf("the list is being rebuilt%s, so some jobs may be missing", progress)
	}
	switch {
	case last.HasMore:
		s.hintf("there are more; --limit 0 shows all of them")
	case len(raw) == 0 && c.empty != "":
		s.hintf("%s", c.empty)
	}
	return nil
}

// print shows things as a table; nothing for none.
func (c collection[T]) print(w io.Writer, s *session, things []T) {
	if len(things) == 0 {
		return
	}
	now := time.Now()
	rows := make([][]string, len(things))
	for i := range things {
		for _, v := range c.row(&things[i]) {
			rows[i] = append(rows[i], cell(v, now))
		}
	}
	s.table(w, c.header, rows)
}

// printOne is print for the one thing of an answer.
func (c collection[T]) printOne(s *session) func(w io.Writer, thing *T, _ time.Time) {
	return func(w io.Writer, thing *T, _ time.Time) { c.print(w, s, []T{*thing}) }
}

// cell is a value as tables show it.
func cell(v any, now time.Time) string {
	switch v := v.(type) {
	case time.Time:
		return ago(v, now)
	case *time.Time:
		if v == nil {
			return "-"
		}
		return ago(*v, now)
	case wire.Dollars:
		if v == "" || v == "0" {
			return "-"
		}
		return "$" + string(v)
	}
	return cmp.Or(fmt.Sprint(v), "-")
}

// read gets the things page by page, raw as they came, and what the last page says beside.
func (c collection[T]) read(ctx context.Context, s *session, limit int) (raw []json.RawMessage, things []T, last wire.Page, err error) {
	a, err := s.api()
	if err != nil {
		return nil, nil, last, err
	}
	query := url.Values{}
	maps.Copy(query, c.query)
	for {
		size := listPage
		if limit > 0 {
			size = min(listPage, limit-len(raw))
		}
		if c.member != "" {
			query.Set("limit", strconv.Itoa(size))
		}
		r, err := a.send(ctx, get(strings.TrimSuffix("/api/v1"+c.path+"?"+query.Encode(), "?")))
		if err != nil {
			return nil, nil, last, err
		}
		page, says, err := c.page(a, r)
		if err != nil {
			return nil, nil, last, err
		}
		raw, last = append(raw, page...), says
		if !last.HasMore || last.Cursor == "" || limit > 0 && len(raw) >= limit {
			things, err = decodeAll[T](a, raw)
			return raw, things, last, err
		}
		query.Set("cursor", last.Cursor)
	}
}

func (c collection[T]) page(a *api, r *reply) (page []json.RawMessage, says wire.Page, err error) {
	if c.member == "" {
		return page, says, a.decode(r, &page)
	}
	var answer map[string]json.RawMessage
	if err := a.decode(r, &answer); err != nil {
		return nil, says, err
	}
	if err := a.decode(r, &says); err != nil {
		return nil, says, err
	}
	return page, says, a.decode(&reply{body: answer[c.member]}, &page)
}

func decodeAll[T any](a *api, raw []json.RawMessage) ([]T, error) {
	things := make([]T, len(raw))
	for i, r := range raw {
		if err := a.decode(&reply{body: r}, &things[i]); err != nil {
			return nil, err
		}
	}
	return things, nil
}

// show prints the one thing that a call answers with.
func show[T any](ctx context.Context, s *session, ask call, text func(w io.Writer, thing *T, now time.Time)) error {
	thing, raw, err := answerOf[T](ctx, s, ask)
	if err != nil {
		return err
	}
	return s.emit(raw, func(w io.Writer) { text(w, &thing, time.Now()) })
}

// lists makes v print a collection, with a limit if that comes in pages.
func lists[T any](s *session, v verb, c collection[T]) verb {
	v.example = cmp.Or(v.example, "  {cmd}")
	limit := 0
	if c.member != "" {
		v.flags = func(c *cobra.Command) { limitFlag(c, &limit) }
	}
	v.run = func(cmd *cobra.Command, _ []string) error { return list(cmd.Context(), s, c, limit) }
	return v
}

// shows makes v print the one thing that a call answers with.
func shows[T any](s *session, v verb, ask func(args []string) call, text func(w io.Writer, thing *T, now time.Time)) verb {
	v.run = func(c *cobra.Command, args []string) error { return show(c.Context(), s, ask(args), text) }
	return v
}

func limitFlag(c *cobra.Command, limit *int) {
	c.Flags().IntVar(limit, "limit", 50, "at most `N`; 0 for all")
}

// facts prints what is known of a thing, a line each; what is empty is left out.
type facts struct {
	w     io.Writer
	now   time.Time
	width int // Of the names.
}

func (f facts) line(name, value string) {
	if value != "" && value != "null" {
		fmt.Fprintf(f.w, "%-*s %s\n", f.width, name, value)
	}
}

func (f facts) at(name string, t time.Time) {
	if !t.IsZero() {
		f.line(name, t.Format(time.RFC3339)+"  "+ago(t, f.now))
	}
}
