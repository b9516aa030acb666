package group

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// slowExport is a disk on which the file of a transfer is not made until the test
// says so.
type slowExport struct {
	vfs.FS
	begun, goOn chan struct{}
}

func (d slowExport) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.Contains(name, "export-") {
		close(d.begun)
		<-d.goOn
	}
	return d.FS.Create(name, c)
}

// A large state takes a while to write; the shard must not stall meanwhile.
func TestSnapshot_EntriesAreAppliedWhileTheStateIsWrittenOut(t *testing.T) {
	t.Parallel()
	disk := slowExport{FS: vfs.NewMem(), begun: make(chan struct{}), goOn: make(chan struct{})}
	r := mustOpen(t, setup{id: "n1", disks: disks{vfs.NewMem(), disk}, bootstrap: []string{"n1"}})
	leaderOf(t, r)
	at := r.put(t, 3)
	s := &snapshots{fsm: r.fsm, firstIndex: r.Group.log.FirstIndex, sending: r.sending}
	done := make(chan error, 1)
	go func() {
		meta, rc, err := s.Open(liveID)
		if err == nil {
			err = rc.Close()
			if meta.Index != at {
				t.Errorf("the transfer says it stands at %d, want %d", meta.Index, at)
			}
		}
		done <- err
	}()
	<-disk.begun
	r.put(t, 3)
	close(disk.goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.stop(t)
}
