package directory

import (
	"fmt"
	"testing"

	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

func TestMoved_IsWhoIsElsewhereInTheEnd(t *testing.T) {
	t.Parallel()
	users := make([]store.DirectoryUser, 200_000)
	for i := range users {
		users[i].UserID = fmt.Sprint(i)
		users[i].Active = i%2 == 0
	}
	m := newMoved()
	for _, v := range users {
		m.note(v, intoGroup)
	}
	for i := range users {
		if v := users[len(users)-1-i]; v.UserID != "7" {
			m.note(v, outOfGroup) // Back to where they were.
		}
	}
	if came, went := m.who(intoGroup), m.who(outOfGroup); len(came) != 1 || came[0] != "7" || len(went) != 0 {
		t.Errorf("%d came and %d went", len(came), len(went))
	}
	m.note(users[8], outOfGroup)
	m.note(users[9], outOfGroup)
	if went := m.who(outOfGroup); fmt.Sprint(went) != "[8 9]" || fmt.Sprint(m.onlyActive(went)) != "[8]" {
		t.Errorf("went: %v, active %v", went, m.onlyActive(went))
	}
}
