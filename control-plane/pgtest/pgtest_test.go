//go:build unix

package pgtest

import (
	"strings"
	"testing"
)

func TestStart_EveryCallHasADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	a, b := Start(t), Start(t)
	if a == b {
		t.Errorf("both are %s", a)
	}
	if !strings.Contains(AsAdmin(t, a), Admin+"@") || strings.Contains(a, Admin+"@") {
		t.Errorf("owner %s, superuser %s", a, AsAdmin(t, a))
	}
}

func TestTemplate_EveryDatabaseBeginsAsItAndIsItsOwn(t *testing.T) {
	t.Parallel()
	prepared := 0
	m := NewTemplate(func(databaseURL string) error {
		prepared++
		Query(t, databaseURL, "CREATE TABLE things (name text)")
		return nil
	})
	a, b := m.Start(t), m.Start(t)
	Query(t, a, "INSERT INTO things VALUES ('one')")
	if got := Query(t, b, "SELECT count(*) FROM things"); got != "0" || prepared != 1 {
		t.Errorf("prepared %d times; the second database has %s rows of the first", prepared, got)
	}
}
