// Package preferences has what users want in memory, because every decision needs it.
//
// A store numbers the changes. A process reads them in order: at its start from the first one on, and then twice a
// second those that are new. So a change costs the same however many users there are, and each process knows of it
// within a second. What a store can't give any more, since it lost it, is forgotten.
//
// Users who want the same share one [Wish]; a million users take some 100 MB. The users themselves stand there as
// hashes: nothing lists them.
package preferences

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Wish is what a user wants, in the form that decisions need. Users share it: it never changes.
type Wish struct {
	// Zone is the user's time zone; nil when none is known, and then it is the policy's.
	Zone *time.Location
	// Hours are the user's own quiet hours; nil for those of the policy. HoursText tells them from others.
	Hours     *policy.OwnHours
	HoursText string
	// Limits are the user's own, by category.
	Limits map[string][]throttle.Rule
	// OptOutCategories and OptOutChannels are what the user does not want.
	OptOutCategories []string
	OptOutChannels   []string

	text  string // tells it from others
	users int    // how many have it; the lock of wishes guards it
}

// OptedOut reports whether the user does not want notifications of a category over a channel.
func (w *Wish) OptedOut(category string, channel notification.Channel) bool {
	return slices.Contains(w.OptOutCategories, category) || slices.Contains(w.OptOutChannels, string(channel))
}

// none is the wish of users without preferences.
var none = &Wish{}

// shardCount is how many parts the users are in, so that who writes does not stop who reads.
const shardCount = 64

// Memory is what all users want. Its methods may be called at the same time. A nil one knows of nobody.
type Memory struct {
	shards [shardCount]shard
	wishes wishes
	seeds  [2]maphash.Seed
}

// shard are some of the users.
type shard struct {
	mu    sync.RWMutex
	users map[userHash]entry
}

// userHash stands for a user. It has 128 bits under keys of this process: no two users share one, and nobody can look
// for two who do.
type userHash [2]uint64

// entry is what is known of one user.
type entry struct {
	wish  *Wish
	until throttle.Micros // quiet until then
	part  uint16          // of the store
	round uint16          // of reading that part from the beginning
}

// NewMemory makes one that knows of nobody.
func NewMemory() *Memory {
	m := &Memory{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for i := range m.shards {
		m.shards[i].users = map[userHash]entry{}
	}
	m.wishes = wishes{byText: map[string]*Wish{}, zones: map[string]*time.Location{}}
	return m
}

// Of returns what a user wants, and until when the user wants nothing at all; 0 when there is no such moment.
func (m *Memory) Of(userID string) (*Wish, throttle.Micros) {
	if m == nil {
		return none, 0
	}
	hash := m.hash(userID)
	s := m.shardOf(hash)
	s.mu.RLock()
	e, known := s.users[hash]
	s.mu.RUnlock()
	if !known {
		return none, 0
	}
	return e.wish, e.until
}

// Each calls do with everything that users want, and how many of them do. It must not call the Memory.
func (m *Memory) Each(do func(w *Wish, users int)) {
	if m != nil {
		m.wishes.each(do)
	}
}

// Len is how many users have preferences.
func (m *Memory) Len() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.RLock()
		n += len(s.users)
		s.mu.RUnlock()
	}
	return n
}

// Set notes what a user wants. The error says what of it could not be read; that does not hold, and the rest does.
func (m *Memory) Set(userID string, p *notification.Preferences) error { return m.set(userID, p, 0, 0) }

func (m *Memory) set(userID string, p *notification.Preferences, part, round uint16) error {
	hash := m.hash(userID)
	s := m.shardOf(hash)
	wish, err := m.wishes.take(p)
	e := entry{wish: wish, part: part, round: round}
	if !p.QuietUntil.IsZero() {
		e.until = throttle.MicrosOf(p.QuietUntil)
	}
	s.mu.Lock()
	before, known := s.users[hash]
	if wish == none && e.until == 0 {
		delete(s.users, hash)
	} else {
		s.users[hash] = e
	}
	s.mu.Unlock()
	if known {
		m.wishes.release(before.wish)
	}
	return err
}

// forget removes the users of a part that were not read in a round.
func (m *Memory) forget(part, round uint16) {
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		for hash, e := range s.users {
			if e.part == part && e.round != round {
				delete(s.users, hash)
				m.wishes.release(e.wish)
			}
		}
		s.mu.Unlock()
	}
}

func (m *Memory) hash(userID string) userHash {
	return userHash{maphash.String(m.seeds[0], userID), maphash.String(m.seeds[1], userID)}
}

func (m *Memory) shardOf(hash userHash) *shard { return &m.shards[hash[0]%shardCount] }
