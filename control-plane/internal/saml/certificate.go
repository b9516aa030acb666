package saml

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

const (
	// KeyBitsMin is the least of a provider's RSA key that a signature is taken from, and the
	// size of ours.
	KeyBitsMin = 2048
	// KeyBitsMax keeps a verification cheap.
	KeyBitsMax = 8192
	// ownLife is that of our certificates. Providers pin them, so nobody gains by short lives.
	ownLife = 10 * 365 * 24 * time.Hour
)

// ParseCertificate reads a provider's certificate, in PEM or as its base64 alone, as
// providers show it. Errors are for people.
func ParseCertificate(text string) (*x509.Certificate, error) {
	raw := []byte(nil)
	if block, rest := pem.Decode([]byte(strings.TrimSpace(text))); block != nil {
		if block.Type != "CERTIFICATE" || strings.TrimSpace(string(rest)) != "" {
			return nil, errors.New("must be one certificate in PEM, not a key or a chain")
		}
		raw = block.Bytes
	} else {
		var err error
		if raw, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err != nil {
			return nil, errors.New("must be a certificate in PEM (-----BEGIN CERTIFICATE-----)")
		}
	}
	c, err := x509.ParseCertificate(raw)
	if err != nil {
		return nil, errors.New("must be an X.509 certificate in PEM")
	}
	return c, CheckCertificate(c)
}

// CheckCertificate refuses keys that no signature is taken from.
func CheckCertificate(c *x509.Certificate) error {
	key, ok := c.PublicKey.(*rsa.PublicKey)
	switch {
	case !ok:
		return errors.New("must have an RSA key; other keys aren't supported")
	case key.N.BitLen() < KeyBitsMin || key.N.BitLen() > KeyBitsMax:
		return fmt.Errorf("must have an RSA key of %d to %d bits", KeyBitsMin, KeyBitsMax)
	}
	return nil
}

// PEM writes a certificate.
func PEM(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// NewKey makes a connection's own key and certificate, both as PEM.
func NewKey(entityID string, now time.Time) (key, certificate string, _ error) {
	private, err := rsa.GenerateKey(rand.Reader, KeyBitsMin)
	if err != nil {
		return "", "", fmt.Errorf("make a SAML key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return "", "", fmt.Errorf("make a SAML certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "Corvo Cloud SAML"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(ownLife),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", fmt.Errorf("make a SAML certificate for %s: %w", entityID, err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", fmt.Errorf("make a SAML key: %w", err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})), nil
}

// CutKey parts a key that NewKey made from what follows it.
func CutKey(keys string) (first, rest string) {
	block, after := pem.Decode([]byte(keys))
	if block == nil {
		return keys, ""
	}
	return string(pem.EncodeToMemory(block)), string(after)
}

// ParseKey reads what NewKey made.
func ParseKey(key, certificate string) (*rsa.PrivateKey, *x509.Certificate, error) {
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return nil, nil, errors.New("read a SAML key: it isn't PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("read a SAML key: %w", err)
	}
	private, ok := parsed.(*rsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("read a SAML key: it is a %T", parsed)
	}
	c, err := ParseCertificate(certificate)
	if err != nil {
		return nil, nil, fmt.Errorf("read a SAML certificate: it %w", err)
	}
	return private, c, nil
}
