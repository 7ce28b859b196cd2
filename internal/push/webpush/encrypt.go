package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

const (
	// recordSize is the size that push services have to accept (RFC 8291, section 4). A message is one record.
	recordSize = 4096
	// padTo is the unit to which messages are padded, in bytes, so that their lengths say little.
	padTo = 512
	// overhead is how much longer a record is than its padded message: header, delimiter and authentication tag.
	overhead = saltLength + 4 + 1 + pointLength + 1 + 16

	saltLength  = 16
	pointLength = 65
)

// encrypt makes the body of a call from a message of at most [maxPayload] bytes, for one subscription. It is aes128gcm
// (RFC 8188), with keys derived together with the browser's (RFC 8291).
func (s *subscription) encrypt(message []byte) ([]byte, error) {
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	salt := make([]byte, saltLength)
	_, _ = rand.Read(salt) // never fails
	padded := min((len(message)+padTo-1)/padTo*padTo, recordSize-overhead)
	return s.seal(message, padded, key, salt)
}

// seal encrypts with this key and salt, which must never be used twice.
func (s *subscription) seal(message []byte, padded int, key *ecdh.PrivateKey, salt []byte) ([]byte, error) {
	aead, nonce, err := s.agree(key, salt)
	if err != nil {
		return nil, err
	}
	body := make([]byte, 0, overhead+padded)
	body = append(body, salt...)
	body = binary.BigEndian.AppendUint32(body, recordSize)
	body = append(body, pointLength)
	body = append(body, key.PublicKey().Bytes()...)

	plain := make([]byte, padded+1)
	plain[copy(plain, message)] = 2 // the delimiter of the last record; zeros follow
	return aead.Seal(body, nonce, plain, nil), nil
}

// agree derives the content's key and nonce.
func (s *subscription) agree(key *ecdh.PrivateKey, salt []byte) (cipher.AEAD, []byte, error) {
	shared, err := key.ECDH(s.public)
	if err != nil {
		return nil, nil, err
	}
	info := "WebPush: info\x00" + string(s.public.Bytes()) + string(key.PublicKey().Bytes())
	input, err := hkdf.Key(sha256.New, shared, s.auth, info, 32)
	if err != nil {
		return nil, nil, err
	}
	pseudorandom, err := hkdf.Extract(sha256.New, input, salt)
	if err != nil {
		return nil, nil, err
	}
	content, err := hkdf.Expand(sha256.New, pseudorandom, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, nil, err
	}
	nonce, err := hkdf.Expand(sha256.New, pseudorandom, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(content)
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCM(block)
	return aead, nonce, err
}
