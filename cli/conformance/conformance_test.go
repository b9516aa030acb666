package conformance_test

import (
	"testing"

	"github.com/corvo-cloud/corvo/cli/conformance"
	"github.com/corvo-cloud/corvo/data-plane/node/nodetest"
)

// Every rule holds over every protocol on a node alone.
func TestConformance_OneNode(t *testing.T) {
	t.Parallel()
	conformance.Run(t, nodetest.Alone(t).URL(), "", conformance.Options{Whole: true})
}
