// Package feedback is the use case of what comes back about e-mails: a user unsubscribes by a link, a mail bounces, a
// provider passes a complaint on. Each mail carries a signed token that says whom it concerns. What holds no such token
// changes nothing, whoever sends it.
package feedback

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/secret"
)

// MinKey is how many characters a key must have at least.
const MinKey = 32

const (
	// linkVersion begins the token of a link. A later form begins with another one, and both are read.
	linkVersion = 1
	// byUUID and byDigest begin the token of an address: the notification's id, or where it is no UUID, its digest.
	byUUID, byDigest = 1, 2

	linkMAC, addressMAC = 16, 8
	// idBytes and hashBytes are how long the id or digest and the address's hash are in the token of an address.
	idBytes, hashBytes = 16, 4
)

// AddressToken is how many characters the token of an address has.
const AddressToken = 47

// addressEncoding is of letters and digits without a difference in case, since mail servers may change it.
var addressEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Keys sign what e-mails carry, and check what comes back. Others can replace them while they are in use. Nil has no
// key: it signs nothing and knows nothing.
type Keys struct {
	keys atomic.Pointer[[]secret.Secret] // the first one signs; never none
}

// CheckKeys refuses keys that are too short. Its errors show none of them.
func CheckKeys(texts []string) error {
	for i, text := range texts {
		if len(text) < MinKey {
			return fmt.Errorf("must have at least %d characters, number %d has %d; make one with openssl rand -hex 32",
				MinKey, i+1, len(text))
		}
	}
	return nil
}

// NewKeys makes Keys of their texts, or nil of none: the first signs, and the others, which it replaces, still hold.
func NewKeys(texts ...string) (*Keys, error) {
	if len(texts) == 0 {
		return nil, nil //nolint:nilnil // none is a valid setting
	}
	k := &Keys{}
	if err := k.set(texts); err != nil {
		return nil, err
	}
	return k, nil
}

// Renew replaces all of them at once. It refuses to leave none. Its form is that of [secret.Source].
func (k *Keys) Renew(_ context.Context, texts []string) error { return k.set(texts) }

func (k *Keys) set(texts []string) error {
	if err := CheckKeys(texts); err != nil {
		return err
	}
	if len(texts) == 0 {
		return errors.New("must hold at least one key")
	}
	fresh := make([]secret.Secret, 0, len(texts))
	for _, text := range texts {
		fresh = append(fresh, secret.New(text))
	}
	k.keys.Store(&fresh)
	return nil
}

// None reports whether there is no key.
func (k *Keys) None() bool { return k == nil }

// all are the keys.
func (k *Keys) all() []secret.Secret {
	if k == nil {
		return nil
	}
	return *k.keys.Load()
}

// sign returns the first bytes of a payload's signature. purpose keeps the tokens of links and addresses apart.
func sign(key secret.Secret, purpose string, payload []byte, size int) []byte {
	mac := hmac.New(sha256.New, []byte(key.Reveal()))
	mac.Write([]byte(purpose + "\x00"))
	mac.Write(payload)
	return mac.Sum(nil)[:size]
}

// seal appends the signature to a payload.
func (k *Keys) seal(purpose string, payload []byte, size int) []byte {
	return append(payload, sign(k.all()[0], purpose, payload, size)...)
}

// open returns the payload of a token that one of the keys has signed. It compares in constant time.
func (k *Keys) open(purpose string, token []byte, size int) (payload []byte, ok bool) {
	if len(token) <= size {
		return nil, false
	}
	payload, given := token[:len(token)-size], token[len(token)-size:]
	for _, key := range k.all() {
		if hmac.Equal(given, sign(key, purpose, payload, size)) {
			ok = true
		}
	}
	return payload, ok
}

const (
	purposeLink    = "unsubscribe"
	purposeAddress = "bounce"
)

// Link is what a user unsubscribes from by one link.
type Link struct{ UserID, Category string }

// errNoLink says nothing of why, since whoever holds a token that this deployment did not sign learns nothing.
var errNoLink = errors.New("the link does not belong to this deployment")

// LinkToken signs a link. It never expires: mail is read years later, and what it allows can be undone. It hides
// nothing: the user's id and the category can be read.
func (k *Keys) LinkToken(link Link) string {
	payload := []byte{linkVersion}
	payload = binary.AppendUvarint(payload, uint64(len(link.UserID)))
	payload = append(append(payload, link.UserID...), link.Category...)
	return base64.RawURLEncoding.EncodeToString(k.seal(purposeLink, payload, linkMAC))
}

// ReadLink reads the token of a link.
func (k *Keys) ReadLink(token string) (Link, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return Link{}, errNoLink
	}
	payload, ok := k.open(purposeLink, sealed, linkMAC)
	if !ok || payload[0] != linkVersion {
		return Link{}, errNoLink
	}
	length, n := binary.Uvarint(payload[1:])
	if n <= 0 || length > uint64(len(payload)-1-n) {
		return Link{}, errNoLink
	}
	text := string(payload[1+n:])
	return Link{UserID: text[:length], Category: text[length:]}, nil
}

// mailing is one mail, as far as the token of its return address tells.
type mailing struct {
	version byte
	id      [idBytes]byte
	address [hashBytes]byte
}

// AddressToken signs what a mail's return address says: which notification it was, and to which address it went.
func (k *Keys) AddressToken(notificationID, address string) string {
	version, id := idOf(notificationID)
	hash := hashOf(address)
	payload := append(append([]byte{version}, id[:]...), hash[:]...)
	return addressEncoding.EncodeToString(k.seal(purposeAddress, payload, addressMAC))
}

// readAddress reads the token of a return address.
func (k *Keys) readAddress(token string) (m mailing, ok bool) {
	sealed, err := addressEncoding.DecodeString(strings.ToLower(token))
	if err != nil {
		return m, false
	}
	payload, ok := k.open(purposeAddress, sealed, addressMAC)
	if !ok || len(payload) != 1+idBytes+hashBytes {
		return m, false
	}
	m.version = payload[0]
	copy(m.id[:], payload[1:])
	copy(m.address[:], payload[1+idBytes:])
	return m, m.version == byUUID || m.version == byDigest
}

// of reports which notification a mail was. ids are those that may be it, for one that only has a
// digest.
func (m mailing) of(ids []string) (id string, ok bool) {
	if m.version == byUUID {
		return uuid.UUID(m.id).String(), true
	}
	for _, id := range ids {
		if version, short := idOf(id); version == m.version && short == m.id {
			return id, true
		}
	}
	return "", false
}

// idOf is a notification's id in 16 bytes: itself when it is a UUID, else its digest.
func idOf(id string) (version byte, short [idBytes]byte) {
	if parsed, err := uuid.Parse(id); err == nil && parsed.String() == id {
		return byUUID, parsed
	}
	sum := sha256.Sum256([]byte(id))
	copy(short[:], sum[:])
	return byDigest, short
}

// hashOf tells the addresses of a user apart, whatever the case that they are written in.
func hashOf(address string) (hash [hashBytes]byte) {
	sum := sha256.Sum256([]byte(strings.ToLower(address)))
	copy(hash[:], sum[:])
	return hash
}
