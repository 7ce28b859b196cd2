package webhook

import (
	"crypto/tls"
	"crypto/x509"
)

// Trust lets the sender call targets whose certificates these authorities signed.
func (s *Sender) Trust(pool *x509.CertPool) {
	s.transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}
