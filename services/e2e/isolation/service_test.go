package isolation

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/pgtest"
	"github.com/corvo-cloud/corvo/services/e2e/rig"
)

// service is the whole of it as its processes: two replicas of the control plane on one
// PostgreSQL, a proxy before each of them, three nodes.
type service struct {
	cell     *rig.Cell
	controls []*rig.CellControl
	// fronts are the proxies' addresses; the first is the public one.
	fronts []string
	// mailbox is the page with its emails.
	mailbox  string
	database string

	turn atomic.Int64
}

const replicas = 2

func startService(t *testing.T) *service {
	t.Helper()
	smtp, page := rig.StartMailbox(t)
	listen := rig.Addresses(t, replicas)
	s := &service{mailbox: page, database: pgtest.Start(t)}
	s.cell = rig.StartCell(t, rig.CellOptions{
		Proxies: replicas, ProxyArgs: []string{"--trusted-proxies", "127.0.0.1"},
		ProxyArgsOf: func(i int) []string { return []string{"--control", "http://" + listen[i]} },
	})
	for i, p := range s.cell.Proxies {
		s.fronts = append(s.fronts, p.URL)
		s.controls = append(s.controls, s.cell.StartControl(rig.ControlOptions{Database: s.database, Listen: listen[i], PublicURL: s.fronts[0], SMTP: smtp}))
	}
	return s
}

// front is one of the fronts, each in its turn: what one replica gave counts at the other.
func (s *service) front() string { return s.fronts[int(s.turn.Add(1))%len(s.fronts)] }

// restart ends every process as a supervisor does, and starts it again, with what it keeps.
func (s *service) restart(t *testing.T) {
	t.Helper()
	var all []*rig.Place
	all = append(all, s.cell.Proxies...)
	for _, c := range s.controls {
		all = append(all, &c.Place)
	}
	for _, n := range s.cell.Nodes {
		all = append(all, &n.Place)
	}
	for _, p := range all {
		p.Signal(syscall.SIGTERM)
	}
	for _, p := range all {
		p.WaitExit(time.Minute)
		p.Start()
	}
	for _, p := range all {
		p.WaitReady(time.Minute)
	}
	for i := range s.cell.Proxies {
		s.cell.WaitServing(i, time.Minute)
	}
	client.CloseIdleConnections()
	grpcClient.CloseIdleConnections()
}

// deleteTenant is what an operator does.
func (s *service) deleteTenant(t *testing.T, name string) {
	t.Helper()
	if _, stderr, exit := rig.Run(t, time.Minute, "control", "delete-tenant", name, "--confirm", name, "--database", s.database); exit != 0 {
		t.Fatalf("delete-tenant: exit %d\n%s", exit, stderr)
	}
}

// must calls the control API and fails unless it succeeds.
func (m *matrix) must(t *testing.T, procedure string, in o, as map[string]string, out any) answer {
	t.Helper()
	a := m.call(t, procedure, in, as)
	if a.status != http.StatusOK {
		t.Fatalf("%s: %d %s", procedure, a.status, a.body)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(a.body), out); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func (m *matrix) call(t *testing.T, procedure string, in o, as map[string]string) answer {
	t.Helper()
	return m.sent(t, request{method: "POST", base: m.front(), path: "/corvo.cloud.v1." + procedure, body: in, headers: as})
}

// sent is the answer to a request, which comes from a network of its own.
func (m *matrix) sent(t *testing.T, q request) answer {
	t.Helper()
	a, err := elsewhere(q).send(m.ctx)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// emailLink waits for an email whose link has a token of that kind.
func (m *matrix) emailLink(t *testing.T, email, prefix string) string {
	t.Helper()
	for {
		mails, err := rig.Mails(m.ctx, m.mailbox)
		if err != nil {
			t.Fatal(err)
		}
		for _, mail := range mails {
			_, after, ok := strings.Cut(mail.Text, "#token="+prefix)
			if ok && len(mail.To) > 0 && mail.To[0] == email {
				return prefix + strings.Fields(after)[0]
			}
		}
		m.pause(t)
	}
}

func (m *matrix) pause(t *testing.T) {
	t.Helper()
	m.wait(t, 5*time.Millisecond)
}

func (m *matrix) wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-m.ctx.Done():
		t.Fatal(m.ctx.Err())
	}
}
