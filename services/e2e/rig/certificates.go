package rig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority signs the certificates of one cell.
type authority struct {
	t    testing.TB
	dir  string
	root *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64 // Serial number.
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), key: newKey(t), next: 2}
	a.root = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	writePEM(t, a.file("ca"), "CERTIFICATE", sign(t, a.root, a.root, a.key, a.key))
	return a
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name+".pem") }

// flags makes a certificate for a process and returns the flags that name it. Raft
// asks for the node's id in it, HTTP for the address.
func (a *authority) flags(name string) []string {
	a.t.Helper()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	a.next++
	key := newKey(a.t)
	writePEM(a.t, a.file(name), "CERTIFICATE", sign(a.t, leaf, a.root, key, a.key))
	writePEM(a.t, a.file(name+"-key"), "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key))(a.t))
	return []string{"--cell-tls", "--cell-ca", a.file("ca"), "--cell-cert", a.file(name), "--cell-key", a.file(name + "-key")}
}

func (a *authority) config(name string) *tls.Config {
	a.t.Helper()
	pair := must(tls.LoadX509KeyPair(a.file(name), a.file(name+"-key")))(a.t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(must(os.ReadFile(a.file("ca")))(a.t))
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{pair}, RootCAs: pool}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

func sign(t testing.TB, cert, by *x509.Certificate, key, byKey *ecdsa.PrivateKey) []byte {
	t.Helper()
	return must(x509.CreateCertificate(rand.Reader, cert, by, &key.PublicKey, byKey))(t)
}

func writePEM(t testing.TB, path, kind string, raw []byte) {
	t.Helper()
	writeFile(t, path, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw})))
}
