package command

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/data-plane/api/eventually"
)

// pair writes a certificate that is valid for some time, and its key.
func pair(t *testing.T, certFile, keyFile string, serial int64, valid time.Duration) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCertificate_AReplacedOneIsServedAndABrokenOneIsNot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem")
	const long = 30 * 24 * time.Hour
	pair(t, certFile, keyFile, 1, long)
	public, followed, err := publicTLS(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	serves := func(what string, want int64) {
		t.Helper()
		followed.look(time.Now(), log)
		got, err := public.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		if n := got.Leaf.SerialNumber.Int64(); n != want {
			t.Errorf("%s: certificate %d, want %d", what, n, want)
		}
	}
	serves("at the start", 1)
	if said.Len() != 0 {
		t.Errorf("said %s", said.String())
	}
	pair(t, certFile, keyFile, 2, long)
	serves("replaced", 2)
	if err := os.WriteFile(keyFile, []byte("half a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	serves("half written", 2)
	serves("half written, still", 2)
	if n := strings.Count(said.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors: %s", n, said.String())
	}
	said.Reset()
	pair(t, certFile, keyFile, 3, 6*24*time.Hour)
	serves("soon over", 3)
	serves("soon over, still", 3)
	if n := strings.Count(said.String(), "level=ERROR"); n != 1 || !strings.Contains(said.String(), "expire") {
		t.Errorf("%d errors: %s", n, said.String())
	}
	followed.look(time.Now().Add(expiryEvery), log)
	if n := strings.Count(said.String(), "level=ERROR"); n != 2 {
		t.Errorf("a day later, %d errors: %s", n, said.String())
	}
}

// Whoever renews certificates sends SIGHUP by habit, which ends a process that doesn't know it.
func TestHangup_DoesNotEndAServer(t *testing.T) {
	if terminal, err := os.Open("/dev/tty"); err == nil {
		_ = terminal.Close()
		t.Skip("this process has a terminal, with which it ends")
	}
	t.Parallel()
	env := filepath.Join(t.TempDir(), "env")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, []string{"mailbox", "--smtp", "127.0.0.1:0", "--listen", "127.0.0.1:0", "--env-file", env}, Process{Stdout: io.Discard, Stderr: io.Discard, Env: func(string) string { return "" }})
	}()
	eventually.True(t, 10*time.Second, "it serves", func() bool { _, err := os.Stat(env); return err == nil })
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil { // Ends this test if it isn't ignored.
		t.Fatal(err)
	}
	stop()
	if code := <-ended; code != ExitOK {
		t.Errorf("exit code %d", code)
	}
}
