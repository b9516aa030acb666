package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/corvo-cloud/corvo/data-plane/api/celladmin"
	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
	"github.com/corvo-cloud/corvo/data-plane/api/forward"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
	"github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1/corvov1connect"
	"github.com/corvo-cloud/corvo/data-plane/api/identity"
)

// What is billed is what clients were told, job for job and attempt for attempt, whatever
// they speak, while leaders change, a node ends and starts again, and calls are repeated
// (INV-20).
func TestINV20_ReadingsAreWhatClientsWereTold(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cell of three nodes")
	}
	t.Parallel()
	r := formedCell(t, 3)
	m := &meteredClient{t: t, cell: r, customer: r.customer(), admin: r.Admin(), jobs: map[string]int64{}}
	m.findShard()
	const each = 4
	for n := range each {
		m.enqueueEverywhere(n)
		if n == 1 {
			m.moveLeader()
		}
	}
	m.agrees()

	tokens := m.fetch(len(m.jobs), 5*time.Minute)
	leader := m.leader()
	r.Stop(leader)
	settled := m.settleEverywhere(tokens)
	m.agrees()
	r.MustStart(leader)
	r.Ready()
	m.moveLeader()

	for n := range each {
		m.enqueueEverywhere(n) // Said again: the same jobs.
	}
	for _, again := range settled {
		again()
	}
	m.agrees()

	m.enqueueEverywhere(each)
	m.expire(each)
	m.agrees()
	r.Stop(m.leader())
	m.agrees()
}

// meteredClient counts for itself what it was told.
type meteredClient struct {
	t        *testing.T
	cell     *cellRig
	customer customer
	admin    *celladmin.Client
	shard    uint32
	turn     int

	jobs       map[string]int64 // Those that were acknowledged, with the bytes of their payload.
	results    int64            // Bytes.
	executions int64
	ended      int64
}

func (m *meteredClient) findShard() {
	m.t.Helper()
	eventually.NoError(m.t, patience, "the namespace's shard is known", func() error {
		state, err := m.admin.State(m.t.Context())
		if err != nil {
			return err
		}
		ns, err := celladmin.FindNamespace(state, m.customer.who.TenantID, celladmin.DefaultNamespace)
		m.shard = ns.GetShard()
		return err
	})
}

// leader is the number of the node that leads the shard.
func (m *meteredClient) leader() (number int) {
	m.t.Helper()
	eventually.True(m.t, patience, "the shard has a leader", func() bool {
		nodes, err := m.admin.Nodes(m.t.Context())
		for i := range nodes {
			for _, g := range nodes[i].GetGroups() {
				if err == nil && g.GetGroup() == m.shard && g.GetRole() == "leader" {
					for n, p := range m.cell.Places {
						if p.ID == nodes[i].GetNode().GetId() {
							number = n
							return m.cell.Nodes[n] != nil
						}
					}
				}
			}
		}
		return false
	})
	return number
}

func (m *meteredClient) moveLeader() {
	m.t.Helper()
	was := m.leader()
	to := m.cell.Places[(was+1)%len(m.cell.Places)].ID
	eventually.NoError(m.t, patience, "leadership moves", func() error { return m.admin.Transfer(m.t.Context(), m.shard, to) })
}

// url is one of the running nodes, another one each time.
func (m *meteredClient) url() string {
	for {
		m.turn++
		if n := m.turn % len(m.cell.Places); m.cell.Nodes[n] != nil {
			return m.cell.Places[n].APIURL
		}
	}
}

type signedAs struct {
	customer customer
	next     http.RoundTripper
}

func (s signedAs) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	who := s.customer.who
	who.ExpiresAt = time.Now().Add(identity.LifeMax)
	if err := s.customer.signer.SignRequest(out, who); err != nil {
		return nil, err
	}
	return s.next.RoundTrip(out)
}

func (m *meteredClient) rpc(options ...connect.ClientOption) corvov1connect.WorkerServiceClient {
	transport := forward.NewTransport(forward.TransportOptions{})
	m.t.Cleanup(transport.CloseIdleConnections)
	return corvov1connect.NewWorkerServiceClient(&http.Client{Transport: signedAs{m.customer, transport}}, m.url(), options...)
}

// frame sends one frame over a stream of its own.
func (m *meteredClient) frame(ctx context.Context, req *corvov1.LifecycleStreamRequest) (*corvov1.LifecycleStreamResponse, error) {
	s := m.rpc(connect.WithGRPC()).StreamLifecycle(ctx)
	req.RequestId = 1
	if err := s.Send(req); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	res, err := s.Receive()
	_ = s.CloseRequest()
	_ = s.CloseResponse()
	if err == nil && res.GetError() != "" {
		err = errors.New(res.GetError())
	}
	return res, err
}

// until calls until it is answered: repeating is safe, by a key or a token.
func (m *meteredClient) until(what string, call func(ctx context.Context) error) {
	m.t.Helper()
	eventually.NoError(m.t, patience, what, func() error {
		ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Second)
		defer cancel()
		return call(ctx)
	})
}

// enqueueEverywhere makes the nth jobs, by each way to make one, each sent twice.
func (m *meteredClient) enqueueEverywhere(n int) {
	m.t.Helper()
	payload := func(way string) string { return fmt.Sprintf(`{"%s":%d}`, way, n) }
	options := func(way string) *corvov1.EnqueueOptions {
		return &corvov1.EnqueueOptions{IdempotencyKey: fmt.Sprintf("%s-%d", way, n)}
	}
	for way, send := range map[string]func(ctx context.Context, way string) (id string, err error){
		"json": func(_ context.Context, way string) (string, error) {
			status, answer := m.customer.post(m.url()+"/api/v1/enqueue", map[string]any{
				"queue": "mail", "payload": map[string]any{way: n}, "idempotency_key": options(way).GetIdempotencyKey(),
			})
			id, _ := answer["job_id"].(string)
			if id == "" {
				return "", fmt.Errorf("%d %v", status, answer)
			}
			return id, nil
		},
		"connect": func(ctx context.Context, way string) (string, error) {
			res, err := m.rpc().Enqueue(ctx, connect.NewRequest(&corvov1.EnqueueRequest{Queue: "mail", PayloadJson: payload(way), Options: options(way)}))
			if err != nil {
				return "", err
			}
			return res.Msg.GetJobId(), nil
		},
		"batch": func(ctx context.Context, way string) (string, error) {
			res, err := m.rpc(connect.WithGRPC()).EnqueueBatch(ctx, connect.NewRequest(&corvov1.EnqueueBatchRequest{
				Jobs: []*corvov1.EnqueueRequest{{Queue: "mail", PayloadJson: payload(way), Options: options(way)}},
			}))
			if err != nil {
				return "", err
			}
			return res.Msg.GetResults()[0].GetJobId(), nil
		},
		"stream": func(ctx context.Context, way string) (string, error) {
			res, err := m.frame(ctx, &corvov1.LifecycleStreamRequest{
				Enqueues: []*corvov1.LifecycleEnqueueItem{{Queue: "mail", PayloadJson: payload(way), Options: options(way)}},
			})
			if err != nil || len(res.GetEnqueueResults()) != 1 || res.GetEnqueueResults()[0].GetJobId() == "" {
				return "", fmt.Errorf("%v, %w", res, errors.Join(err, errNotExactly))
			}
			return res.GetEnqueueResults()[0].GetJobId(), nil
		},
	} {
		for range 2 {
			m.until("an enqueue by "+way, func(ctx context.Context) error {
				id, err := send(ctx, way)
				if err == nil {
					m.jobs[id] = int64(len(payload(way)))
				}
				return err
			})
		}
	}
}

// fetch leases so many jobs, and returns the tokens of their leases.
func (m *meteredClient) fetch(count int, lease time.Duration) map[string]string {
	m.t.Helper()
	tokens := map[string]string{}
	m.until("jobs are fetched", func(ctx context.Context) error {
		res, err := m.rpc().FetchBatch(ctx, connect.NewRequest(&corvov1.FetchBatchRequest{
			Queues: []string{"mail"}, WorkerId: "w", LeaseDuration: int32(lease / time.Second), Count: int32(count - len(tokens)),
		}))
		if err != nil {
			return err
		}
		for _, j := range res.Msg.GetJobs() {
			tokens[j.GetJobId()] = j.GetLeaseToken()
		}
		if len(tokens) < count {
			return fmt.Errorf("%d of %d jobs", len(tokens), count)
		}
		return nil
	})
	return tokens
}

// settleEverywhere ends the attempts by each way to end one, and returns what repeats that.
func (m *meteredClient) settleEverywhere(tokens map[string]string) (again []func()) {
	m.t.Helper()
	const result = `{"ok":true}`
	n := 0
	for id, token := range tokens {
		var call func(ctx context.Context) error
		switch n++; n % 6 {
		case 0:
			call = func(context.Context) error {
				status, answer := m.customer.post(m.url()+"/api/v1/ack/"+id, map[string]any{"lease_token": token, "result": map[string]any{"ok": true}})
				if status != http.StatusOK {
					return fmt.Errorf("%d %v", status, answer)
				}
				return nil
			}
			m.results += int64(len(result))
			m.ended++
		case 1:
			call = func(ctx context.Context) error {
				_, err := m.rpc().Ack(ctx, connect.NewRequest(&corvov1.AckRequest{JobId: id, LeaseToken: token, ResultJson: result}))
				return err
			}
			m.results += int64(len(result))
			m.ended++
		case 2:
			call = func(ctx context.Context) error {
				res, err := m.rpc().AckBatch(ctx, connect.NewRequest(&corvov1.AckBatchRequest{Items: []*corvov1.AckBatchItem{{JobId: id, LeaseToken: token}}}))
				if err == nil && res.Msg.GetAcked() != 1 {
					err = fmt.Errorf("%v", res.Msg)
				}
				return err
			}
			m.ended++
		case 3:
			call = func(ctx context.Context) error {
				res, err := m.frame(ctx, &corvov1.LifecycleStreamRequest{Fails: []*corvov1.LifecycleFailItem{{JobId: id, LeaseToken: token, Error: "no", Terminal: true}}})
				if err == nil && (len(res.GetFailOutcomes()) != 1 || res.GetFailOutcomes()[0].GetError() != "") {
					err = fmt.Errorf("%v", res)
				}
				return err
			}
			m.ended++
		case 4: // Its worker was asked to stop, and did.
			m.until("a cancel", func(context.Context) error {
				status, answer := m.customer.post(m.url()+"/api/v1/jobs/"+id+"/cancel", map[string]any{})
				if status != http.StatusOK {
					return fmt.Errorf("%d %v", status, answer)
				}
				return nil
			})
			call = func(ctx context.Context) error {
				_, err := m.rpc().Fail(ctx, connect.NewRequest(&corvov1.FailRequest{JobId: id, LeaseToken: token, Error: "stopped"}))
				return err
			}
			m.ended++
		default: // Given back: no execution.
			call = func(ctx context.Context) error {
				_, err := m.rpc().Fail(ctx, connect.NewRequest(&corvov1.FailRequest{JobId: id, LeaseToken: token, Release: true}))
				return err
			}
			m.executions--
		}
		m.executions++
		repeat := func() { m.until("an attempt of "+id+" ends", call) }
		repeat()
		again = append(again, repeat)
	}
	return again
}

// expire fetches jobs and lets their leases run out.
func (m *meteredClient) expire(count int) {
	m.t.Helper()
	for id := range m.fetch(count, time.Second) {
		eventually.True(m.t, patience, "the lease of "+id+" has run out", func() bool {
			_, job := m.customer.as(m.customer.who, http.MethodGet, m.url()+"/api/v1/jobs/"+id, nil)
			return job["state"] == "pending"
		})
		m.executions++
	}
}

// agrees wants the readings to be what was told.
func (m *meteredClient) agrees() {
	m.t.Helper()
	var got celladmin.ShardReadings
	m.until("readings", func(ctx context.Context) (err error) {
		got, err = m.admin.Readings(ctx, m.shard, celladmin.ReadingsFrom{})
		return err
	})
	var sum, last cellv1.Reading
	for _, r := range got.List {
		if r.GetNamespaceId() != m.customer.who.NamespaceID {
			continue
		}
		sum.JobsEnqueued += r.GetJobsEnqueued()
		sum.Executions += r.GetExecutions()
		sum.PayloadBytes += r.GetPayloadBytes()
		if r.GetHour() >= last.GetHour() {
			last.Hour, last.OpenJobs, last.StoredBytes = r.GetHour(), r.GetOpenJobs(), r.GetStoredBytes()
		}
	}
	var payloads int64
	for _, n := range m.jobs {
		payloads += n
	}
	type told struct{ jobs, executions, payloads, open, stored int64 }
	billed := told{sum.JobsEnqueued, sum.Executions, sum.PayloadBytes, last.OpenJobs, last.StoredBytes}
	want := told{int64(len(m.jobs)), m.executions, payloads, int64(len(m.jobs)) - m.ended, payloads + m.results}
	if billed != want {
		m.t.Fatalf("billed %+v, clients were told %+v (INV-20)", billed, want)
	}
	if got.Source != fmt.Sprintf("shard/%d", m.shard) || got.Epoch == "" || got.CompleteNs == 0 || got.Seq == 0 {
		m.t.Errorf("readings of %q in epoch %q, complete to %d, seq %d", got.Source, got.Epoch, got.CompleteNs, got.Seq)
	}
}
