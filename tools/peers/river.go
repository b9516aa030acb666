package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverQueue is River on a PostgreSQL that syncs every commit, which is its default.
type riverQueue struct {
	*server
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	// stopping are workers whose jobs are all completed; close waits for them.
	stopping sync.WaitGroup
}

// riverJob is a payload as it is: River keeps arguments as JSON.
type riverJob struct {
	N string `json:"n"`
}

func (riverJob) Kind() string { return "job" }

func riverVersion() (string, error) {
	bin, err := postgresBin()
	if err != nil {
		return "", err
	}
	postgres, err := programVersion(filepath.Join(bin, "postgres"), "--version")()
	return fmt.Sprintf("River %s on %s", moduleVersion("github.com/riverqueue/river"), postgres), err
}

func openRiver(ctx context.Context, l launcher, _ options) (queue, error) {
	s, address, err := startPostgres(l)
	if err != nil {
		return nil, err
	}
	q := &riverQueue{server: s}
	config, err := pgxpool.ParseConfig("postgres://postgres@" + address + "/postgres?sslmode=disable")
	if err == nil {
		config.MaxConns = 2 * fillers
		q.pool, err = pgxpool.NewWithConfig(ctx, config)
	}
	if err == nil {
		err = s.until(ctx, func() error { return q.pool.Ping(ctx) })
	}
	if err == nil {
		err = q.setUp(ctx)
	}
	if err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

func (q *riverQueue) setUp(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(q.pool), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	q.client, err = river.NewClient(riverpgxv5.New(q.pool), &river.Config{Logger: quiet()})
	return err
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func (q *riverQueue) close() {
	q.stopping.Wait()
	if q.pool != nil {
		q.pool.Close()
	}
	q.server.close()
}

func (q *riverQueue) producer(context.Context) (func(context.Context, []byte) error, error) {
	return func(ctx context.Context, body []byte) error {
		_, err := q.client.Insert(ctx, riverJob{string(body[len(payloadOpen) : len(body)-len(payloadEnd)])}, nil)
		return err
	}, nil
}

// riverPoll is as often as River may look for jobs; its default is made for few of
// them.
const riverPoll = time.Millisecond

func (q *riverQueue) work(ctx context.Context, handlers int, handled func([]byte) bool) error {
	workers := river.NewWorkers()
	var all sync.Once
	done := make(chan struct{}) // Closed when the last job was handled.
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, j *river.Job[riverJob]) error {
		if !handled([]byte(payloadOpen + j.Args.N + payloadEnd)) {
			all.Do(func() { close(done) })
		}
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{Logger: quiet(), Workers: workers, Queues: map[string]river.QueueConfig{
		river.QueueDefault: {MaxWorkers: handlers, FetchCooldown: riverPoll, FetchPollInterval: riverPoll}}})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
	err = q.settled(ctx)
	// The measured phase ends here; stopping River takes longer.
	q.stopping.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMax)
		defer cancel()
		_ = client.Stop(ctx) // Its server is stopped next.
	})
	return err
}

// settled waits until the last completion is committed: River commits some together, after the
// handler returned.
func (q *riverQueue) settled(ctx context.Context) error {
	for left := true; left; {
		err := q.pool.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM river_job WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled'))").Scan(&left)
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		if left {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// startPostgres makes a database cluster and serves it on a port of its own. Root may
// not run PostgreSQL, so nobody does.
func startPostgres(l launcher) (s *server, address string, err error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, "", err
	}
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	as, err := l.postgresUser()
	if err != nil {
		return nil, "", err
	}
	data := filepath.Join(l.dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
	initdb.Dir, initdb.SysProcAttr = l.dir, &syscall.SysProcAttr{Credential: as}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	cmd, err := l.forC(filepath.Join(bin, "postgres"), "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "max_connections="+strconv.Itoa(4*fillers))
	if err != nil {
		return nil, "", err
	}
	s, err = l.start(cmd, as)
	return s, net.JoinHostPort("127.0.0.1", port), err
}

// postgresUser is nobody for root, who gives it the folder and the counter.
func (l launcher) postgresUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("find somebody to run PostgreSQL: %w", err)
	}
	uid, uerr := strconv.Atoi(nobody.Uid)
	gid, gerr := strconv.Atoi(nobody.Gid)
	if err := errors.Join(uerr, gerr, os.Chown(l.dir, uid, gid), os.Chown(l.counter(), uid, gid)); err != nil {
		return nil, fmt.Errorf("give PostgreSQL its folder: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// postgresBin is the folder of the newest PostgreSQL's programs.
func postgresBin() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		path, err := exec.LookPath("postgres")
		if err != nil {
			return "", errors.New("PostgreSQL is not installed (install the peers with `make peers`)")
		}
		return filepath.Dir(path), nil
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // Not a number: the oldest.
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) })), nil
}
