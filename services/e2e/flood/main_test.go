package flood

import (
	"os"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(specVariable); spec != "" {
		os.Exit(floodMain(spec))
	}
	os.Exit(rig.Main(m))
}
