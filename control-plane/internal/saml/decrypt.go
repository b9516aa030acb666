package saml

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rsa"
	_ "crypto/sha1" // OAEP's default; nothing rests on its collisions.
	_ "crypto/sha256"
	_ "crypto/sha512"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/beevik/etree"
)

// errUndecryptable is one for all causes: which of them it was would be an oracle.
var errUndecryptable = refuse("its encrypted assertion can't be used. Check that the provider encrypts with this connection's certificate, by RSA-OAEP and AES (GCM or CBC)")

var errCipher = errors.New("wrong key, form or padding")

// blockModes are the ciphers of the data, by key size in bytes.
var blockModes = map[string]struct {
	key int
	gcm bool
}{
	xmlenc + "aes128-cbc": {16, false}, xmlenc + "aes192-cbc": {24, false}, xmlenc + "aes256-cbc": {32, false},
	xmlenc11 + "aes128-gcm": {16, true}, xmlenc11 + "aes192-gcm": {24, true}, xmlenc11 + "aes256-gcm": {32, true},
}

// digests are those of OAEP; masks its mask generation functions, which may have another.
var (
	digests = map[string]crypto.Hash{
		"": crypto.SHA1, xmldsig + "sha1": crypto.SHA1, xmlenc + "sha256": crypto.SHA256, xmlenc + "sha512": crypto.SHA512,
		"http://www.w3.org/2001/04/xmldsig-more#sha384": crypto.SHA384,
	}
	masks = map[string]crypto.Hash{
		"": crypto.SHA1, xmlenc11 + "mgf1sha1": crypto.SHA1, xmlenc11 + "mgf1sha256": crypto.SHA256, xmlenc11 + "mgf1sha384": crypto.SHA384,
		xmlenc11 + "mgf1sha512": crypto.SHA512,
	}
)

// decrypt gives the bytes of an EncryptedAssertion of the right shape. crewjam/saml's own
// decryption knows neither AES-GCM with 256 bits nor xmlenc11's OAEP, takes PKCS #1 v1.5,
// and ends the process's goroutine where a text is too short.
func decrypt(el *etree.Element, key *rsa.PrivateKey) ([]byte, error) {
	data := child(el, xmlenc, "EncryptedData")
	wrapped := child(el, xmlenc, "EncryptedKey")
	if inner := child(child(data, xmldsig, "KeyInfo"), xmlenc, "EncryptedKey"); inner != nil {
		if wrapped != nil {
			return nil, errCipher
		}
		wrapped = inner
	}
	if wrapped == nil || key == nil {
		return nil, errCipher
	}
	mode, known := blockModes[attribute(child(data, xmlenc, "EncryptionMethod"), "Algorithm")]
	if !known {
		return nil, errCipher
	}
	secret, err := unwrap(wrapped, key)
	if err != nil || len(secret) != mode.key {
		return nil, errCipher
	}
	sealed, err := cipherText(data)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, errCipher
	}
	if mode.gcm {
		return openGCM(block, sealed)
	}
	return openCBC(block, sealed)
}

func unwrap(el *etree.Element, key *rsa.PrivateKey) ([]byte, error) {
	method := child(el, xmlenc, "EncryptionMethod")
	sealed, err := cipherText(el)
	if err != nil {
		return nil, err
	}
	digest, known := digests[attribute(child(method, xmldsig, "DigestMethod"), "Algorithm")]
	if !known {
		return nil, errCipher
	}
	options := rsa.OAEPOptions{Hash: digest}
	switch attribute(method, "Algorithm") {
	case xmlenc + "rsa-oaep-mgf1p":
		options.MGFHash = crypto.SHA1
	case xmlenc11 + "rsa-oaep":
		mask, known := masks[attribute(child(method, xmlenc11, "MGF"), "Algorithm")]
		if !known {
			return nil, errCipher
		}
		options.MGFHash = mask
	default:
		return nil, errCipher
	}
	secret, err := key.Decrypt(nil, sealed, &options)
	if err != nil {
		return nil, errCipher
	}
	return secret, nil
}

func cipherText(el *etree.Element) ([]byte, error) {
	text := strings.Join(strings.Fields(textOf(child(child(el, xmlenc, "CipherData"), xmlenc, "CipherValue"))), "")
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errCipher
	}
	return raw, nil
}

func openGCM(block cipher.Block, sealed []byte) ([]byte, error) {
	gcm, err := cipher.NewGCM(block)
	if err != nil || len(sealed) < gcm.NonceSize() {
		return nil, errCipher
	}
	plain, err := gcm.Open(nil, sealed[:gcm.NonceSize()], sealed[gcm.NonceSize():], nil)
	if err != nil {
		return nil, errCipher
	}
	return plain, nil
}

// openCBC takes any bytes as padding but the last, which is its length (XML Encryption, 5.2).
func openCBC(block cipher.Block, sealed []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(sealed) < 2*size || len(sealed)%size != 0 {
		return nil, errCipher
	}
	plain := make([]byte, len(sealed)-size)
	cipher.NewCBCDecrypter(block, sealed[:size]).CryptBlocks(plain, sealed[size:])
	padding := int(plain[len(plain)-1])
	if padding < 1 || padding > size {
		return nil, errCipher
	}
	return plain[:len(plain)-padding], nil
}
