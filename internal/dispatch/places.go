package dispatch

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
)

// The codes with which deliveries are returned unsent because as many of their category, or over their channel, are in
// flight as the policy allows. They show as the reasons of deferrals.
const (
	codeCategoryBusy = "category_busy"
	codeChannelBusy  = "channel_busy"
)

const (
	// shortestBusy and longestBusy bound how long a delivery stays away that found no place: as long as there has been
	// none.
	shortestBusy, longestBusy = 500 * time.Millisecond, time.Minute
)

// places counts the deliveries in flight of the categories and channels for which the policy has a bound. Nobody waits
// for a place: who waited would hold a token that other categories can use.
type places struct {
	mu    sync.Mutex
	taken map[string]*taken // by the code and the name
}

// taken are the places of one category or channel.
type taken struct {
	inFlight int
	full     time.Time // since when somebody found no place; zero when the latest found one
}

func newPlaces() *places { return &places{taken: map[string]*taken{}} }

// enter takes a place of the category and one of the channel, as far as they have bounds. The function that it returns
// leaves them. Without a place the error says so.
func (p *places) enter(category string, channel notification.Channel, s Settings) (leave func(), busy error) {
	if s.CategoryConcurrency == 0 && s.Concurrency == 0 {
		return func() {}, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ofCategory, wait := p.take(codeCategoryBusy+category, s.CategoryConcurrency)
	if wait > 0 {
		return nil, noPlace(codeCategoryBusy, wait)
	}
	ofChannel, wait := p.take(codeChannelBusy+string(channel), s.Concurrency)
	if wait > 0 {
		ofCategory()
		return nil, noPlace(codeChannelBusy, wait)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		ofCategory()
		ofChannel()
	}, nil
}

// take takes one of most places; with 0 there is no bound. The lock is held, and is held when the place is left.
func (p *places) take(name string, most int) (leave func(), wait time.Duration) {
	if most == 0 {
		return func() {}, 0
	}
	t, ok := p.taken[name]
	if !ok {
		t = &taken{}
		p.taken[name] = t
	}
	if t.inFlight >= most {
		if t.full.IsZero() {
			t.full = time.Now()
		}
		return nil, min(max(time.Since(t.full), shortestBusy), longestBusy)
	}
	t.full = time.Time{}
	t.inFlight++
	return func() {
		if t.inFlight--; t.inFlight == 0 && t.full.IsZero() {
			delete(p.taken, name) // categories come and go with the policy
		}
	}, 0
}

// noPlace returns a delivery unsent. The waits are spread, so that not all come back at once.
func noPlace(code string, wait time.Duration) error {
	wait += time.Duration(rand.Int64N(int64(wait / 2))) //nolint:gosec // spread, no secret
	return &push.Error{Class: push.Throttled, Code: code, RetryAfter: wait, Unsent: true}
}
