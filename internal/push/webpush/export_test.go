package webpush

import "crypto/ecdh"

// Seal encrypts for the subscription with a given key and salt, without padding.
func (c Checker) Seal(to string, message []byte, key *ecdh.PrivateKey, salt []byte) ([]byte, error) {
	s, err := c.subscription(to)
	if err != nil {
		return nil, err
	}
	return s.seal(message, len(message), key, salt)
}
