package cellsecret

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	one = []byte("the first secret of a cell")
	two = []byte("the second secret of a cell")
)

func TestReplace_OnlyWhatCanBeUsedCounts(t *testing.T) {
	t.Parallel()
	s := Must(one)
	before := s.Now()
	for name, bad := range map[string][][]byte{
		"none": {}, "three": {one, two, []byte("a third secret of a cell")}, "short": {[]byte("short")}, "twice the same": {two, two},
	} {
		if _, err := s.Replace(bad...); err == nil || s.Now() != before {
			t.Errorf("%s: err %v, replaced %v", name, err, s.Now() != before)
		}
	}
	if changed, err := s.Replace(one); err != nil || changed || s.Now() != before {
		t.Errorf("the same again: changed %v, %v", changed, err)
	}
	if changed, err := s.Replace(two, one); err != nil || !changed || s.Now() == before {
		t.Errorf("two: changed %v, %v", changed, err)
	}
	if changed, err := s.Replace(one, two); err != nil || !changed {
		t.Errorf("the other order: changed %v, %v", changed, err)
	}
}

func TestStatus_NamesSecretsAndRevealsNone(t *testing.T) {
	t.Parallel()
	s := Must(one, two)
	at := time.Unix(100, 0)
	s.Now().NoteUse(0, "n1", at)
	s.Now().NoteUse(1, "n2", at)
	got := s.Status()
	if len(got) != 2 || !got[0].Signs || got[1].Signs || got[0].ID == got[1].ID {
		t.Fatalf("status %+v", got)
	}
	if got[0].LastUse != (Use{}) || got[1].LastUse != (Use{at, "n2"}) {
		t.Errorf("uses %+v", got)
	}
	if other := Must(two).Status()[0].ID; other != got[1].ID {
		t.Errorf("another process calls it %s, this one %s", other, got[1].ID)
	}
	if len(got[0].ID) != 2*idBytes || bytes.Contains(one, []byte(got[0].ID)) {
		t.Errorf("id %q", got[0].ID)
	}
}

func TestDerived_FollowsTheSecrets(t *testing.T) {
	t.Parallel()
	s := Must(one)
	made := 0
	d, err := Derive(s, func(secret []byte) (string, error) { made++; return string(secret), nil })
	if err != nil {
		t.Fatal(err)
	}
	want := func(texts ...string) {
		t.Helper()
		if _, got := d.Values(); strings.Join(got, "|") != strings.Join(texts, "|") {
			t.Errorf("values %q, want %q", got, texts)
		}
	}
	want(string(one))
	want(string(one))
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	if _, err := s.Replace(two, one); err != nil {
		t.Fatal(err)
	}
	want(string(two), string(one))
}

// What was read stays in use while the file cannot be used, as in the middle of being
// written; the secret is in no log.
func TestFollow_TakesWhatTheFileHasAndKeepsItOtherwise(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	var talk bytes.Buffer
	log := slog.New(slog.NewTextHandler(&talk, nil))
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, said := Must(one), ""
	for _, c := range []struct {
		name, text string
		ids        []string
		logs       string
	}{
		{"the same", string(one) + "\n", Must(one).Now().IDs(), ""},
		{"a second", string(one) + "\n\n  " + string(two) + " \r\n", Must(one, two).Now().IDs(), "have changed"},
		{"half written", "short", Must(one, two).Now().IDs(), "can't be used"},
		{"still", "short", Must(one, two).Now().IDs(), ""},
		{"empty", "", Must(one, two).Now().IDs(), "is empty"},
		{"three", "a secret of a cell 1\na secret of a cell 2\na secret of a cell 3\n", Must(one, two).Now().IDs(), "at most 2"},
		{"swapped", string(two) + "\n" + string(one), Must(two, one).Now().IDs(), "have changed"},
		{"the new one alone", string(two), Must(two).Now().IDs(), "have changed"},
	} {
		talk.Reset()
		write(c.text)
		said = s.look(path, log, said)
		if got := strings.Join(s.Now().IDs(), " "); got != strings.Join(c.ids, " ") {
			t.Errorf("%s: secrets %s, want %s", c.name, got, c.ids)
		}
		if !strings.Contains(talk.String(), c.logs) || c.logs == "" && talk.Len() > 0 {
			t.Errorf("%s: log %q, want %q", c.name, talk.String(), c.logs)
		}
		if strings.Contains(talk.String(), string(one)) || strings.Contains(talk.String(), string(two)) {
			t.Errorf("%s: a secret is in the log: %s", c.name, talk.String())
		}
	}
}
