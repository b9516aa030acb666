package keycloak_test

import (
	"os"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// variable has the folder of an unpacked Keycloak, which is then started, or the address of a
// fresh one with admin, admin: it takes a minute to start.
const variable = "CORVO_KEYCLOAK"

var keycloak server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(variable) == "" {
		return m.Run() // Each test says why it is skipped.
	}
	defer keycloak.stop()
	return rig.Main(m)
}
