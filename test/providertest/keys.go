package providertest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"sync"
	"testing"
)

// serviceKey is made once: an RSA key takes its time.
var serviceKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// ServiceAccount is the key of a service account of the project demo, as Google gives it out. It is exchanged for
// tokens at a URL.
func ServiceAccount(tb testing.TB, tokenURL string) string {
	tb.Helper()
	key, err := serviceKey()
	if err != nil {
		tb.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "demo", "client_email": "pacer@example.com", "private_key_id": "k1",
		"private_key": pkcs8(tb, key), "token_uri": tokenURL,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// SigningKey is the text of a .p8 file, as Apple gives it out.
func SigningKey(tb testing.TB) string {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return pkcs8(tb, key)
}

func pkcs8(tb testing.TB, key crypto.PrivateKey) string {
	tb.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
