//go:build unix

// Package pgtest gives tests a real PostgreSQL: one private server for a test process,
// on a socket in a folder of its own, and a fresh database for every call.
//
// It must not know any schema. Surprising: the server is the child of a shell that
// reads from this process; however the process ends, the shell reads the end of the
// file, stops the server and removes its folder.
package pgtest

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// Role owns the databases: it may make tables and is bound by row-level security.
	Role = "corvo"
	// Admin is the server's superuser.
	Admin = "postgres"

	readyWait = 60 * time.Second
	readyPoll = 20 * time.Millisecond
	notFound  = "PostgreSQL is not installed: these tests run initdb, postgres and psql from PATH or /usr/lib/postgresql/*/bin (Debian: apt-get install postgresql)"
)

// server is what start made.
type server struct {
	bin, socket string
	databases   *atomic.Int64
}

// shared is the one server of this process, started by whoever asks first.
var shared = sync.OnceValues(start)

// Start makes an empty database and gives the URL of its owner, a plain role. A missing
// PostgreSQL is a failure.
func Start(t testing.TB) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return s.create(t, empty)
}

// empty is how a database without anything begins: ordered as people in Boston would, so that
// whoever relies on bytes is found out.
const empty = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"

// create makes a database that ends with the test.
func (s *server) create(t testing.TB, as string) string {
	t.Helper()
	name := s.name()
	s.mustRun(t, "CREATE DATABASE "+name+" OWNER "+Role+" "+as)
	t.Cleanup(func() { s.mustRun(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	return s.url(Role, name)
}

func (s *server) name() string { return "test_" + strconv.FormatInt(s.databases.Add(1), 10) }

// Template is what databases begin as: it is prepared once in a process, and copied.
type Template struct{ made func() (string, error) }

// NewTemplate makes a Template of an empty database that prepare fills, by the URL of its owner.
// It is prepared when it is first needed; prepare leaves no connection behind.
func NewTemplate(prepare func(databaseURL string) error) *Template {
	return &Template{sync.OnceValues(func() (string, error) {
		s, err := shared()
		if err != nil {
			return "", err
		}
		name := s.name()
		if err := s.run("CREATE DATABASE " + name + " OWNER " + Role + " " + empty); err != nil {
			return "", err
		}
		return name, prepare(s.url(Role, name))
	})}
}

// Start makes a database like the template's, and gives the URL of its owner.
func (m *Template) Start(t testing.TB) string {
	t.Helper()
	name, err := m.made()
	if err != nil {
		t.Fatal(err)
	}
	s, _ := shared() // It has made the template.
	return s.create(t, "TEMPLATE "+name)
}

// Query runs a statement as the server's superuser and gives what it answered, bare.
func Query(t testing.TB, databaseURL, sql string) string {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(bin, "psql"), "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, AsAdmin(t, databaseURL)).CombinedOutput()
	if err != nil {
		t.Fatalf("psql: %s: %v: %s", sql, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Server is a PostgreSQL for one test alone, which may take it away.
type Server struct {
	// URL of its one database, the same after every Start.
	URL string

	s   *server
	as  *syscall.Credential
	end io.Closer // Its end stops the server; nil while it is down.
	ran chan struct{}
}

// StartOwn makes a server with an empty database. Unlike that of Start it keeps what it
// committed when it is stopped.
func StartOwn(t testing.TB) *Server {
	t.Helper()
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	s, as, err := initialise(bin)
	if err != nil {
		t.Fatal(err)
	}
	own := &Server{s: s, as: as, URL: s.url(Role, "own")}
	t.Cleanup(func() {
		own.Stop(t)
		if err := os.RemoveAll(s.socket); err != nil {
			t.Error(err)
		}
	})
	own.Start(t)
	s.mustRun(t, "CREATE ROLE "+Role+" LOGIN")
	s.mustRun(t, "CREATE DATABASE own OWNER "+Role+" TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'")
	return own
}

// Start starts the server, also again, and returns when it answers.
func (o *Server) Start(t testing.TB) {
	t.Helper()
	run, end, err := o.s.launch(o.as, "on", "true")
	if err != nil {
		t.Fatal(err)
	}
	o.end, o.ran = end, make(chan struct{})
	go func(ran chan struct{}) { // Ends with the server, which Stop ends.
		_ = run.Wait() // It was asked to end at once; that is no success.
		close(ran)
	}(o.ran)
	if err := o.s.ready(); err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
}

// Stop ends the server as a crash would: connections break, and the next Start recovers.
func (o *Server) Stop(t testing.TB) {
	t.Helper()
	if o.end == nil {
		return
	}
	if err := o.end.Close(); err != nil {
		t.Errorf("stop PostgreSQL: %v", err)
	}
	<-o.ran
	o.end = nil
}

// AsAdmin is the URL of the same database for the server's superuser.
func AsAdmin(t testing.TB, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(Admin)
	return u.String()
}

func (s *server) url(role, database string) string {
	q := url.Values{"host": {s.socket}, "sslmode": {"disable"}}
	// A host must stand there for every reader of URLs; the one in the query counts.
	return (&url.URL{Scheme: "postgres", User: url.User(role), Host: "localhost", Path: "/" + database, RawQuery: q.Encode()}).String()
}

func (s *server) mustRun(t testing.TB, sql string) {
	t.Helper()
	if err := s.run(sql); err != nil {
		t.Fatal(err)
	}
}

func (s *server) run(sql string) error {
	out, err := exec.Command(filepath.Join(s.bin, "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", s.socket, "-U", Admin, "-d", "postgres", "-c", sql).CombinedOutput()
	if err != nil {
		return fmt.Errorf("psql: %s: %w: %s", sql, err, out)
	}
	return nil
}

// supervise runs the server until the end of its own input, at once and not in order,
// then $4: what is done with the folder.
const supervise = `"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses='' \
	-c fsync=off -c synchronous_commit="$3" -c full_page_writes=off \
	-c max_connections=300 -c shared_buffers=32MB >"$2/log" 2>&1 </dev/null &
server=$!
cat >/dev/null
kill -QUIT $server
wait $server
"$4" -rf "$2"`

func start() (*server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s, as, err := initialise(bin)
	if err != nil {
		return nil, err
	}
	// Nobody needs what is in it afterwards, so commits need not even be written.
	run, end, err := s.launch(as, "off", "rm")
	if err != nil {
		return nil, err
	}
	// Reaps the shell, and keeps the pipe's end from being collected until then.
	go func(end io.Closer) { _ = errors.Join(run.Wait(), end.Close()) }(end)
	if err := s.ready(); err != nil {
		log, _ := os.ReadFile(filepath.Join(s.socket, "log")) // What there is.
		return nil, errors.Join(fmt.Errorf("start PostgreSQL: %w: %s", err, log), end.Close())
	}
	return s, s.run("CREATE ROLE " + Role + " LOGIN")
}

// initialise makes the folder of a server that does not run yet.
func initialise(bin string) (*server, *syscall.Credential, error) {
	// A socket's path is short, so not a test's own folder.
	dir, err := os.MkdirTemp("/tmp", "corvo-pg-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	as, err := serverUser(dir)
	if err != nil {
		return nil, nil, err
	}
	initdb := command(as, dir, filepath.Join(bin, "initdb"), "-D", filepath.Join(dir, "data"), "-U", Admin, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("initdb: %w: %s", err, out), os.RemoveAll(dir))
	}
	return &server{bin: bin, socket: dir, databases: new(atomic.Int64)}, as, nil
}

// launch starts the server; the end of what is written to end stops it.
func (s *server) launch(as *syscall.Credential, synchronous, after string) (run *exec.Cmd, end io.Closer, err error) {
	run = command(as, s.socket, "/bin/sh", "-c", supervise, "pgtest", s.bin, s.socket, synchronous, after)
	// Not a test's to interrupt: the end of its input is how it is stopped.
	run.SysProcAttr.Setpgid = true
	if end, err = run.StdinPipe(); err != nil {
		return nil, nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := run.Start(); err != nil {
		return nil, nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return run, end, nil
}

func (s *server) ready() error {
	deadline := time.Now().Add(readyWait)
	for {
		err := s.run("SELECT 1")
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(readyPoll)
	}
}

// programs finds the folder of the newest PostgreSQL.
func programs() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		newest := found[0]
		for _, f := range found[1:] {
			if number(f) > number(newest) {
				newest = f
			}
		}
		return filepath.Dir(newest), nil
	}
	path, err := exec.LookPath("postgres")
	if err != nil {
		return "", errors.New(notFound)
	}
	return filepath.Dir(path), nil
}

// number of the version in /usr/lib/postgresql/NUMBER/bin/postgres; 0 for a strange one.
func number(path string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	if err != nil {
		return 0
	}
	return n
}

// serverUser gives the folder to who runs the server: PostgreSQL refuses to be root.
func serverUser(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("root can not run PostgreSQL: %w", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr, os.Chown(dir, int(uid), int(gid))); err != nil {
		return nil, fmt.Errorf("give %s to user postgres: %w", dir, err)
	}
	// So that psql, as whoever runs the tests, finds the socket.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

func command(as *syscall.Credential, dir, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: as}
	// Not the tests' PG* variables.
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PG") {
			c.Env = append(c.Env, v)
		}
	}
	return c
}
