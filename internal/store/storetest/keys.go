package storetest

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
)

// keyed makes a notification for a request with an idempotency key, as intake does: under an id that is made for it.
func (p *probe) keyed(key, fingerprint string) *notification.Notification {
	id, err := uuid.NewV7()
	if err != nil {
		p.Fatal(err)
	}
	return p.notification(func(n *notification.Notification) {
		n.ID, n.IDMade, n.IdempotencyKey, n.Fingerprint, n.Title = id.String(), true, key, fingerprint, fingerprint
	})
}

// acceptAll accepts notifications in one call.
func (p *probe) acceptAll(batch ...*notification.Notification) []intake.Accepted {
	p.Helper()
	accepted, err := p.Accept(p.Context(), batch)
	if err != nil || len(accepted) != len(batch) {
		p.Fatalf("accept %d: %d results, %v", len(batch), len(accepted), err)
	}
	return accepted
}

// wantHolder wants an idempotency key to belong to a notification; "" for none.
func (p *probe) wantHolder(key, id string) {
	p.Helper()
	holder, err := p.Holder(p.Context(), key)
	if err != nil {
		p.Fatal(err)
	}
	if holder == nil && id != "" || holder != nil && holder.ID != id {
		p.Errorf("%s belongs to %+v, want %q", key, holder, id)
	}
}

// keys: an idempotency key belongs to one request and one notification, also when its end has come.
func keys(p *probe) {
	p.wantHolder("key", "")
	first := p.keyed("key", "body")
	if a := p.acceptAll(first)[0]; a.Known || a.Err != nil {
		p.Fatalf("the first: %+v", a)
	}
	for _, ended := range []bool{false, true} {
		if ended {
			if err := p.Cancel(p.Context(), first.ID); err != nil {
				p.Fatal(err)
			}
		}
		for _, fingerprint := range []string{"body", "other"} {
			a := p.acceptAll(p.keyed("key", fingerprint))[0]
			if !a.Known || a.Err != nil || a.First == nil || a.First.ID != first.ID || a.First.Title != "body" ||
				a.First.IdempotencyKey != "key" || a.First.Fingerprint != "body" {
				p.Errorf("%s again: %+v, want the first known", fingerprint, a)
			}
		}
		p.wantHolder("key", first.ID)
	}
	if a := p.acceptAll(p.keyed("another key", "body"))[0]; a.Known || a.Err != nil {
		p.Errorf("another key: %+v", a)
	}
}

// keysAndIDs: a key belongs to the notification that was accepted with it, and to no other whose id its request named.
func keysAndIDs(p *probe) {
	named := func(key, id, fingerprint string) *notification.Notification {
		n := p.keyed(key, fingerprint)
		n.ID, n.IDMade = id, false
		return n
	}
	p.acceptAll(named("", "taken", "body"))
	if a := p.acceptAll(named("key", "taken", "other"))[0]; !a.Known || a.First == nil || a.First.IdempotencyKey != "" {
		p.Errorf("an id that is taken, with a key: %+v", a)
	}
	p.wantHolder("key", "")
	if a := p.acceptAll(named("key", "free", "third"))[0]; a.Known || a.Err != nil {
		p.Errorf("the key with another id: %+v", a)
	}
	p.wantHolder("key", "free")
	if a := p.acceptAll(named("key", "free", "third"))[0]; !a.Known || a.First == nil || a.First.Fingerprint != "third" {
		p.Errorf("the same again: %+v", a)
	}
}

// keysAtOnce: many callers accept under a new idempotency key at the same moment, with one body or another. One gets
// it, the others are told who has it, and nobody gets an error.
func keysAtOnce(p *probe) {
	const callers = 16
	for round := range 20 {
		key := "key" + strconv.Itoa(round)
		var mu sync.Mutex
		var all sync.WaitGroup
		fresh, reused, ids := 0, 0, map[string]bool{}
		start := make(chan struct{})
		for caller := range callers {
			n := p.keyed(key, "body"+strconv.Itoa(caller%2))
			all.Go(func() {
				<-start
				accepted, err := p.Accept(p.Context(), []*notification.Notification{n})
				if err != nil {
					p.Errorf("%s: caller %d: %v", key, caller, err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				switch a := accepted[0]; {
				case a.Err != nil || a.Known && a.First.Fingerprint != n.Fingerprint:
					reused++
				case a.Known:
					ids[a.First.ID] = true
				default:
					fresh++
					ids[n.ID] = true
				}
			})
		}
		close(start)
		all.Wait()
		if fresh != 1 || reused != callers/2 || len(ids) != 1 {
			p.Errorf("%s: %d new, %d refused, of the notifications %v", key, fresh, reused, ids)
		}
	}
}

// manyKeys: a batch of keys that is repeated, with others among them, finds each first in its place.
func manyKeys(p *probe) {
	const size = 300
	batch := func(from int, fingerprint string) []*notification.Notification {
		all := make([]*notification.Notification, size)
		for i := range all {
			n := p.keyed("key"+strconv.Itoa(from+i), fingerprint)
			n.UserID = []string{"ada", "bob", "eve", "zoe"}[i%4]
			all[i] = n
		}
		return all
	}
	first := batch(0, "body")
	p.acceptAll(first...)
	for i, a := range p.acceptAll(batch(size/3, "body")...) {
		known := i+size/3 < size
		if a.Err != nil || a.Known != known || known && a.First.ID != first[i+size/3].ID {
			p.Errorf("key %d: %+v, want it known: %t", i+size/3, a, known)
		}
	}
}

// keysInAnyOrder: many callers accept the same keys at the same moment, each in an order of its own. None gets an
// error, and each key goes to one of them.
func keysInAnyOrder(p *probe) {
	const callers, keys = 8, 100
	for round := range 5 {
		var won [keys]atomic.Int64
		var all sync.WaitGroup
		for range callers {
			order, batch := rand.Perm(keys), make([]*notification.Notification, keys)
			for i, at := range order {
				batch[i] = p.keyed(strconv.Itoa(round)+"-"+strconv.Itoa(at), "body")
			}
			all.Go(func() {
				accepted, err := p.Accept(p.Context(), batch)
				if err != nil {
					p.Error(err)
					return
				}
				for i, a := range accepted {
					if a.Err != nil {
						p.Errorf("key %d: %v", order[i], a.Err)
					}
					if !a.Known && a.Err == nil {
						won[order[i]].Add(1)
					}
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
