package fulldisk

import (
	"os"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }
