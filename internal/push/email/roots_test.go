package email_test

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

// tlsRoots vouch for a server's certificate.
func tlsRoots(tb testing.TB, cfg *tls.Config) *x509.CertPool {
	tb.Helper()
	certificate, err := x509.ParseCertificate(cfg.Certificates[0].Certificate[0])
	if err != nil {
		tb.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return pool
}
