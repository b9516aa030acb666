package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/apikey"
	cellv1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/cell/v1"
	corvov1 "github.com/corvo-cloud/corvo/data-plane/api/gen/corvo/v1"
)

// benchProxy has keys in memory and no node: authentication needs none.
func benchProxy(b *testing.B, keys int) (*Proxy, []apikey.Key) {
	b.Helper()
	state := &cellv1.State{Index: 1}
	all := make([]apikey.Key, keys)
	for i := range keys {
		k := generate(b)
		all[i] = k
		d := k.Digest()
		tenant := fmt.Sprintf("tn_%026d", i/10)
		if i%10 == 0 {
			state.Tenants = append(state.Tenants, &cellv1.Tenant{Id: tenant, Name: fmt.Sprintf("tenant-%d", i/10)})
			state.Namespaces = append(state.Namespaces, &cellv1.Namespace{Id: fmt.Sprintf("ns_%026d", i/10), TenantId: tenant, Name: "default", Shard: 2})
		}
		state.Keys = append(state.Keys, &cellv1.Key{Id: k.ID(), TenantId: tenant, Digests: [][]byte{d[:]}, Grants: granted("worker")})
	}
	p := &Proxy{view: newView(), uses: newUses(), now: time.Now, crossOrigin: http.NewCrossOriginProtection(), domain: testDomain}
	p.view.publish(snapshotOf(state))
	p.view.confirm(time.Now())
	return p, all
}

func BenchmarkAuthenticate(b *testing.B) {
	p, keys := benchProxy(b, 100_000)
	known := keys[len(keys)/2]
	// An unknown id and a wrong secret take the same path: their times must agree. The
	// second check that both get afterwards is the cell's time, not ours.
	for name, k := range map[string]apikey.Key{"known": known, "unknown": generate(b), "wrong": withID(b, generate(b), known)} {
		b.Run(name, func(b *testing.B) {
			r := httptest.NewRequest("POST", "/t/"+"tenant-5000/api/v1/fetch", nil)
			r.Header.Set("X-API-Key", k.Reveal())
			b.ReportAllocs()
			for b.Loop() {
				addr, ref := parseAddress(r, testDomain, "http")
				if ref != nil {
					b.Fatal(ref.message)
				}
				cred, ref := p.read(r)
				if ref != nil {
					b.Fatal(ref.message)
				}
				c, ref := p.view.current().judge(cred, addr, nil, p.now())
				if (ref == nil) != (name == "known") {
					b.Fatal(ref)
				}
				p.uses.note(c.use, p.now())
			}
		})
	}
}

// BenchmarkChange is one key changed among 100,000.
func BenchmarkChange(b *testing.B) {
	p, keys := benchProxy(b, 100_000)
	k := &cellv1.Key{Id: keys[7].ID(), TenantId: fmt.Sprintf("tn_%026d", 0), Revoked: true}
	index := uint64(1)
	b.ReportAllocs()
	for b.Loop() {
		index++
		p.view.take(&cellv1.WatchResponse{Index: index, Changes: []*cellv1.Change{keyChange(k)}}, time.Now())
	}
}

// BenchmarkRecheck is what a change costs with 10,000 calls open.
func BenchmarkRecheck(b *testing.B) {
	p, keys := benchProxy(b, 10_000)
	p.calls = newCalls(nil)
	for _, k := range keys {
		r := httptest.NewRequest("POST", "/api/v1/fetch", nil)
		r.Header.Set("X-API-Key", k.Reveal())
		c, ref := p.authenticate(r, address{path: "/api/v1/fetch"})
		if ref != nil {
			b.Fatal(ref.message)
		}
		cl := &call{caller: &c, cancel: func(error) { b.Fatal("ended") }}
		if ref := p.calls.enter(cl, 0); ref != nil {
			b.Fatal(ref.message)
		}
	}
	for index := uint64(2); b.Loop(); index++ {
		before, msg := p.view.current(), &cellv1.WatchResponse{Index: index, Changes: []*cellv1.Change{keyChange(&cellv1.Key{Id: "key_other"})}}
		p.view.take(msg, time.Now())
		p.calls.recheck(before, p.view.current(), touchedBy(msg), time.Now())
	}
}

// BenchmarkUnary and BenchmarkStream show what the proxy adds on loopback: both
// ends and the node share the processor.
func BenchmarkUnary(b *testing.B) {
	r := startRig(b, rigOptions{})
	r.up[0].does(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	b.ReportAllocs()
	for b.Loop() {
		req, err := http.NewRequest("POST", r.base+"/api/v1/enqueue", strings.NewReader(`{"queue":"q","payload":{}}`))
		if err != nil {
			b.Fatal(err)
		}
		withKey(r.acme.key)(req)
		resp, err := r.h2c.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
}

// BenchmarkUnaryParallel has many callers on one connection, as an SDK does.
func BenchmarkUnaryParallel(b *testing.B) {
	r := startRig(b, rigOptions{})
	r.up[0].does(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req, err := http.NewRequest("POST", r.base+"/api/v1/enqueue", strings.NewReader(`{"queue":"q","payload":{}}`))
			if err != nil {
				b.Error(err)
				return
			}
			withKey(r.acme.key)(req)
			resp, err := r.h2c.Do(req)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
}

func BenchmarkStream(b *testing.B) {
	r := startRig(b, rigOptions{})
	s := r.worker(r.acme.key).StreamLifecycle(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Send(&corvov1.LifecycleStreamRequest{RequestId: 1}); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Receive(); err != nil {
			b.Fatal(err)
		}
	}
	_ = s.CloseRequest()
	_ = s.CloseResponse()
}
