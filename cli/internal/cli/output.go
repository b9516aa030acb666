package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// The values of --output.
const (
	outputText  = "text"
	outputJSON  = "json"
	outputJSONL = "jsonl"
)

// machine reports whether stdout is for programs.
func (s *session) machine() bool { return s.output != outputText }

// talkf writes a line for people to stderr.
func (s *session) talkf(format string, args ...any) {
	fmt.Fprintln(s.proc.Stderr, printable(fmt.Sprintf(format, args...)))
}

// hintf suggests a next command, to people only.
func (s *session) hintf(format string, args ...any) {
	if !s.machine() && isTerminal(s.proc.Stderr) {
		fmt.Fprintln(s.proc.Stderr, s.paint(styleDim, printable(fmt.Sprintf(format, args...))))
	}
}

// emit prints one object of the API, untouched for machines.
func (s *session) emit(raw json.RawMessage, text func(io.Writer)) error {
	switch s.output {
	case outputJSON:
		return s.writeJSON(raw, "  ")
	case outputJSONL:
		return s.writeJSON(raw, "")
	default:
		return s.writeText(text)
	}
}

// emitAll prints a list: a JSON array, or one line per item.
func (s *session) emitAll(rows []json.RawMessage, text func(io.Writer)) error {
	switch s.output {
	case outputJSON:
		if rows == nil {
			rows = []json.RawMessage{}
		}
		raw, err := marshal(rows)
		if err != nil {
			return err
		}
		return s.writeJSON(raw, "  ")
	case outputJSONL:
		for _, row := range rows {
			if err := s.writeJSON(row, ""); err != nil {
				return err
			}
		}
		return nil
	default:
		return s.writeText(text)
	}
}

func (s *session) emitValue(v any, text func(io.Writer)) error {
	raw, err := marshal(v)
	if err != nil {
		return err
	}
	return s.emit(raw, text)
}

func (s *session) writeJSON(raw json.RawMessage, indent string) error {
	var b bytes.Buffer
	raw = bytes.TrimSpace(raw) // Indent keeps the newline that ends an answer.
	var err error
	if indent == "" {
		err = json.Compact(&b, raw)
	} else {
		err = json.Indent(&b, raw, "", indent)
	}
	if err != nil {
		return &Failure{Exit: ExitFail, Code: "BAD_ANSWER", What: "the server's response isn't JSON", Why: err.Error()}
	}
	b.WriteByte('\n')
	return s.write(b.Bytes())
}

func (s *session) writeText(text func(io.Writer)) error {
	var b bytes.Buffer
	text(&b)
	return s.write([]byte(printable(b.String())))
}

// printable replaces control characters, but for those that lay text out. Errors of jobs
// and names are other people's, and a terminal obeys what it is sent.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

func (s *session) write(data []byte) error {
	if _, err := s.proc.Stdout.Write(data); err != nil {
		return &Failure{Exit: ExitFail, Code: "OUTPUT", What: "can't write to stdout", Why: err.Error()}
	}
	return nil
}

// marshal is json.Marshal without HTML escapes: payloads are sent as given and shown as sent.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width of stdout; 0 means no terminal, so nothing may be cut.
func (s *session) width() int {
	f, ok := s.proc.Stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 80
	}
	return w
}

type style string

const (
	styleDim  style = "2"
	styleBold style = "1"
	styleBad  style = "1;31"
)

// paint colours text for a terminal. NO_COLOR wins over CLICOLOR_FORCE.
func (s *session) paint(st style, text string) string {
	if s.proc.Env("NO_COLOR") != "" || s.proc.Env("TERM") == "dumb" {
		return text
	}
	if !isTerminal(s.proc.Stderr) && s.proc.Env("CLICOLOR_FORCE") == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

// table lays out rows under a header. On a terminal the last column gives way;
// in a pipe no line is ever cut. What has several lines shows the first.
func (s *session) table(w io.Writer, header []string, rows [][]string) {
	for _, row := range rows {
		for i, cell := range row {
			if line, _, more := strings.Cut(cell, "\n"); more {
				row[i] = strings.TrimRight(line, "\r") + " …"
			}
		}
	}
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	room := s.lastColumn(widths)
	for _, row := range append([][]string{header}, rows...) {
		var b strings.Builder
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(cut(cell, room))
				break
			}
			b.WriteString(cell)
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// lastColumn is how many characters the last column may take, 0 for any.
func (s *session) lastColumn(widths []int) int {
	total := s.width()
	if total == 0 {
		return 0
	}
	for _, w := range widths[:len(widths)-1] {
		total -= w + 2
	}
	return max(total, 8)
}

func cut(text string, room int) string {
	if room == 0 || utf8.RuneCountInString(text) <= room {
		return text
	}
	return string([]rune(text)[:room-1]) + "…"
}
