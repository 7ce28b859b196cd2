package throttle

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// admissionLog is the admissions that a rolling plan or a cap remembers. It is the specification of what log.lua keeps.
// The zero value is empty.
//
// An admission leaves the log only when no rule that was in force since the log began can see it, and none would after
// a refund: it is older than the longest window, and as many newer ones as the largest max follow it. So [Next] over
// what is left gives the same result as over all admissions ever made.
//
// Only bypasses make a log longer than that, with admissions that are not old. Some of these are kept, since newer ones
// may be refunded. Beyond [logRoom] they are cut off, and a refund frees no slot that one of them would fill.
type admissionLog struct {
	// The admissions by time, then token; and the time of each token.
	times  []Micros
	tokens []string
	at     map[string]Micros
	// most and longest are the largest max and the longest per of the rules that the log was ever charged under.
	most    int
	longest time.Duration
}

const (
	// logRoom is how many admissions a log keeps at most beyond its largest max.
	logRoom = 64
	// tokenOfCut is the token of an entry that stands for all admissions that were cut off, at the moment of the
	// newest.
	tokenOfCut = "/"
	// prefixOfUncut begins the token of an admission that was cut off and counts again.
	prefixOfUncut = "/-"
)

// charge adds an admission under a plan with that largest max and longest per, and forgets what no rule can see.
func (l *admissionLog) charge(most int, per time.Duration, now, at Micros, token string) {
	if len(l.times) == 0 {
		l.most, l.longest = 0, 0
	}
	l.most, l.longest = max(l.most, most), max(l.longest, per)
	if earlier, found := l.at[token]; found && earlier != at {
		// It is that of an earlier notification with the same id, and counts on under another name.
		l.insert(earlier, token+"/"+strconv.FormatInt(int64(earlier), 10))
	}
	l.insert(at, token)
	if len(l.times) <= l.most {
		return
	}
	beyond, old := l.times[len(l.times)-1-l.most], now-Micros(l.longest.Microseconds())
	l.drop(sort.Search(len(l.times), func(i int) bool { return l.times[i] > min(beyond, old) }))
	if excess := len(l.times) - l.most - logRoom; excess > 0 {
		newest := l.times[excess]
		l.drop(excess + 1)
		l.insert(newest, tokenOfCut)
	}
}

// insert puts an admission in its place. One with the same token moves there.
func (l *admissionLog) insert(at Micros, token string) {
	if l.at == nil {
		l.at = make(map[string]Micros)
	}
	l.take(token)
	i := sort.Search(len(l.times), func(i int) bool {
		return l.times[i] > at || l.times[i] == at && strings.Compare(l.tokens[i], token) > 0
	})
	l.times = slices.Insert(l.times, i, at)
	l.tokens = slices.Insert(l.tokens, i, token)
	l.at[token] = at
}

// drop forgets the oldest n. The others stay where they are: a log may be long.
func (l *admissionLog) drop(n int) {
	for i, old := range l.tokens[:n] {
		delete(l.at, old)
		l.tokens[i] = ""
	}
	l.times, l.tokens = l.times[n:], l.tokens[n:]
}

// take takes an admission out. It returns false when there is none with that token.
func (l *admissionLog) take(token string) bool {
	at, found := l.at[token]
	if !found {
		return false
	}
	delete(l.at, token)
	i := sort.Search(len(l.times), func(i int) bool { return l.times[i] >= at })
	for l.tokens[i] != token {
		i++
	}
	l.times = slices.Delete(l.times, i, i+1)
	l.tokens = slices.Delete(l.tokens, i, i+1)
	return true
}

// refund takes an admission out. When that leaves fewer than the largest max, and others were cut off, the newest of
// those takes its place.
func (l *admissionLog) refund(token string) bool {
	if !l.take(token) {
		return false
	}
	if cut, found := l.at[tokenOfCut]; found && len(l.times) < l.most {
		l.insert(cut, prefixOfUncut+token)
	}
	return true
}

// pullBack moves what is later than a moment to an earlier one. It returns false when nothing is.
func (l *admissionLog) pullBack(far, at Micros) bool {
	from := sort.Search(len(l.times), func(i int) bool { return l.times[i] > far })
	tokens := slices.Clone(l.tokens[from:])
	for _, token := range tokens {
		l.insert(at, token)
	}
	return len(tokens) > 0
}

// rollingUsage is how many admissions of the log a rule's window holds, and when the oldest of them leaves it.
func (c *cell) rollingUsage(r Rule, now Micros, boundaries Boundaries) (used int, frees Micros) {
	if c == nil {
		return 0, 0
	}
	begins := r.countsFrom(now, boundaries)
	from := sort.Search(len(c.times), func(i int) bool { return c.times[i] >= begins })
	if from == len(c.times) {
		return 0, 0
	}
	return len(c.times) - from, r.frees(c.times[from], boundaries)
}
