package state

import (
	"errors"
	"testing"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/cellversion"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
)

func TestTable_EveryKindHasAVersion(t *testing.T) {
	for k := 1; k < command.Kinds; k++ {
		if r := &table[k]; r.since < cellversion.First || r.since > cellversion.Highest {
			t.Errorf("kind %d is of version %d", k, r.since)
		}
	}
}

// What a later version brings is refused below it: the node stops, it never skips.
func TestVersion_ACommandOrAPartOfALaterOneIsSkew(t *testing.T) {
	kind := command.KindOf(&command.Pause{})
	was := table[kind]
	defer func() { table[kind] = was }()
	since[*command.Pause](cellversion.Highest + 1)(&table[kind])
	if err := tooNew(&command.Pause{}, cellversion.Highest); !errors.Is(err, cellversion.ErrSkew) {
		t.Errorf("a command of a later version: %v", err)
	}
	table[kind] = was
	needs(func(c *command.Pause) cellversion.Version {
		if c.Paused {
			return cellversion.Highest + 1
		}
		return 0
	})(&table[kind])
	if err := tooNew(&command.Pause{Paused: true}, cellversion.Highest); !errors.Is(err, cellversion.ErrSkew) {
		t.Errorf("a part of a later version: %v", err)
	}
	if err := tooNew(&command.Pause{}, cellversion.Highest); err != nil {
		t.Errorf("without that part: %v", err)
	}
}
