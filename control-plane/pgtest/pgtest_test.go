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
