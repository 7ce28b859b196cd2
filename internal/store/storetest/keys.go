package storetest

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// keysAtOnce: many callers reserve a new idempotency key at the same moment, with one body or another. One gets it, the
// others are told so, and nobody gets an error.
func keysAtOnce(p *probe) {
	const callers = 16
	for round := range 20 {
		key := "key" + strconv.Itoa(round)
		var mu sync.Mutex
		claims, ids := map[intake.Claim]int{}, map[string]bool{}
		var all sync.WaitGroup
		start := make(chan struct{})
		for caller := range callers {
			all.Go(func() {
				<-start
				r, err := ReserveOne(p.Context(), p, key, "body"+strconv.Itoa(caller%2), "id"+strconv.Itoa(caller))
				if err != nil {
					p.Errorf("%s: caller %d: %v", key, caller, err)
				}
				mu.Lock()
				defer mu.Unlock()
				claims[r.Claim]++
				ids[r.ID] = true
			})
		}
		close(start)
		all.Wait()
		if claims[intake.ClaimNew] != 1 || claims[intake.ClaimBusy] != callers/2-1 ||
			claims[intake.ClaimOther] != callers/2 || len(ids) != 1 {
			p.Errorf("%s: claims %v of the notifications %v", key, claims, ids)
		}
	}
}

// keysOf makes so many keys, each with a body and an id of its own.
func keysOf(n int, id string) []intake.Key {
	keys := make([]intake.Key, n)
	for i := range keys {
		number := strconv.Itoa(i)
		keys[i] = intake.Key{Key: "key" + number, Fingerprint: "body" + number, ID: id + number, Life: time.Hour}
	}
	return keys
}

// manyKeys: keys of several partitions are reserved, committed and recognized in one call each, in their order: those
// that are new, that others are accepting, that are done, and that have another body. So are the notifications.
func manyKeys(p *probe) {
	keys := keysOf(300, "first")
	const busy, other = 100, 200 // keys from there on
	var accepted []intake.AcceptedKey
	var originals []intake.Original
	for i, k := range keys {
		if i%3 > 0 { // the others are new later
			continue
		}
		if r, err := ReserveOne(p.Context(), p, k.Key, k.Fingerprint, k.ID); err != nil || r.Claim != intake.ClaimNew {
			p.Fatalf("%s: %+v, %v", k.Key, r, err)
		}
		if i < busy || i >= other {
			accepted = append(accepted, intake.AcceptedKey{Key: k.Key})
		}
	}
	if err := p.Commit(p.Context(), accepted); err != nil {
		p.Fatal(err)
	}
	again := keysOf(300, "second")
	for i := range again[other:] {
		again[other+i].Fingerprint = "another body"
	}
	reservations, err := p.Reserve(p.Context(), again)
	if err != nil || len(reservations) != len(again) {
		p.Fatalf("%d reservations, %v", len(reservations), err)
	}
	for i, got := range reservations {
		want := intake.Reservation{Claim: intake.ClaimNew, ID: again[i].ID}
		switch {
		case i%3 > 0:
		case i < busy:
			want = intake.Reservation{Claim: intake.ClaimDone, ID: keys[i].ID}
		case i < other:
			want = intake.Reservation{Claim: intake.ClaimBusy, ID: keys[i].ID}
		default:
			want = intake.Reservation{Claim: intake.ClaimOther, ID: keys[i].ID}
		}
		if got != want {
			p.Errorf("%s is reserved as %+v, want %+v", again[i].Key, got, want)
		}
	}
	for _, user := range []string{"ada", "bob", "eve", "zoe"} {
		n := p.accept(func(n *notification.Notification) {
			n.UserID, n.Title, n.Data = user, "hi "+user, []byte(`{"a":1}`)
		})
		originals = append(originals,
			intake.Original{UserID: user, ID: n.ID}, intake.Original{UserID: user, ID: "none"})
	}
	p.wantOriginals(originals)
}

// wantOriginals wants every second of some notifications to be found as it was accepted, and the others not at all.
func (p *probe) wantOriginals(of []intake.Original) {
	p.Helper()
	found, err := p.Originals(p.Context(), of)
	if err != nil || len(found) != len(of) {
		p.Fatalf("%d originals, %v", len(found), err)
	}
	for i, n := range found {
		if i%2 > 0 {
			if n != nil {
				p.Errorf("one that was never accepted is %+v", n)
			}
			continue
		}
		v, err := p.View(p.Context(), of[i].ID)
		if err != nil {
			p.Fatal(err)
		}
		if diff := cmp.Diff(&v.Notification, n); diff != "" {
			p.Errorf("the original of %s differs from what the view has (want -, got +):\n%s", of[i].ID, diff)
		}
	}
}

// keysInAnyOrder: many callers reserve and commit the same keys at the same moment, each in an order of its own. None
// gets an error, and each key goes to one of them.
func keysInAnyOrder(p *probe) {
	const callers, keys = 8, 100
	for round := range 5 {
		var won [keys]atomic.Int64
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				mine := keysOf(keys, "id"+strconv.Itoa(caller)+"-")
				for i := range mine {
					mine[i].Key = strconv.Itoa(round) + mine[i].Key
				}
				order := rand.Perm(keys)
				asked, accepted := make([]intake.Key, keys), make([]intake.AcceptedKey, keys)
				for i, at := range order {
					asked[i], accepted[i] = mine[at], intake.AcceptedKey{Key: mine[at].Key}
				}
				reservations, err := p.Reserve(p.Context(), asked)
				if err != nil {
					p.Errorf("caller %d: %v", caller, err)
					return
				}
				for i, r := range reservations {
					if r.Claim == intake.ClaimNew {
						won[order[i]].Add(1)
					}
				}
				if err := p.Commit(p.Context(), accepted); err != nil {
					p.Errorf("caller %d: %v", caller, err)
				}
			})
		}
		all.Wait()
		for i := range won {
			if n := won[i].Load(); n != 1 {
				p.Errorf("key %d is given to %d callers", i, n)
			}
		}
	}
}
