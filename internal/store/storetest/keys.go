package storetest

import (
	"strconv"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/intake"
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
				r, err := p.Reserve(p.Context(), key, "body"+strconv.Itoa(caller%2), "id"+strconv.Itoa(caller),
					time.Hour)
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
