package clocks_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

func TestMain(m *testing.M) {
	if os.Getenv("CORVO_TEST_LONG") == "" { // It compiles everything anew, the standard library included.
		fmt.Println("skipped; make test-long runs it")
		return
	}
	os.Exit(rig.MainWithWallClocks(m))
}
