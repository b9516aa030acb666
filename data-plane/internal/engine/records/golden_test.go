package records

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/internal/engine/command"
	"github.com/corvo-cloud/corvo/data-plane/internal/engine/job"
)

var rewrite = flag.Bool("rewrite", false, "write the golden file anew")

const goldenRecords = "testdata/records-v1.txt"

// Stored bytes are read for ever: a change of a record's fields needs a new version.
func TestRecords_Version1BytesAreFixedForEver(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for _, r := range append(records(), moreRecords()...) {
		fmt.Fprintf(&want, "%s: %x\n", r.name, r.sample)
	}
	if *rewrite {
		if err := os.WriteFile(goldenRecords, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(goldenRecords)
	if err != nil {
		t.Fatal(err)
	}
	if string(file) != want.String() {
		t.Fatalf("records changed.\nfile:\n%s\nnow:\n%s", file, want.String())
	}
}

// moreRecords are those that records does not have.
func moreRecords() []record {
	step := &command.Step{Queue: "q", Payload: []byte("{}")}
	chain := &command.Chain{ID: job.ChainID{2}, Steps: []command.Step{*step, {Queue: "r"}}, OnFailure: step, GoOn: true}
	state := ChainState{
		CreatedAt: epoch, FinishedAt: epoch + 1, Status: ChainExited, Steps: 2, Jobs: []job.ID{{1}, {3}}, OnExit: job.ID{4}, ExitReason: "enough",
	}
	schedule := Schedule{
		Schedule: command.Schedule{
			Name: "s", Cron: "0 * * * *", Zone: "UTC", Paused: true, Jitter: time.Second, Overlap: command.OverlapCancel, CatchUp: command.CatchUpAll,
			Job: command.Template{
				Queue: "q", Payload: []byte("{}"), Priority: job.High, Retry: command.DefaultRetry(), RetryOpen: command.RetryMax, ExpireAfter: time.Minute,
				Tags: []command.Tag{{Key: "k", Value: "v"}}, UniqueKey: "u", UniqueFor: time.Hour,
			},
		},
		Version: 300, CreatedAt: epoch, UpdatedAt: epoch + 1, Next: epoch + 2, Since: epoch + 3, LastRun: epoch + 4, LastJob: job.ID{5}, Missed: 6,
	}
	return []record{
		{name: "chain", sample: EncodeChain(chain)},
		{name: "chain state", sample: state.Encode()},
		{name: "outcome", sample: EncodeOutcome(OutcomeDeleted)},
		{name: "waits", sample: EncodeIDs([]job.ID{{1}, {2}})},
		{name: "schedule", sample: schedule.Encode()},
	}
}
