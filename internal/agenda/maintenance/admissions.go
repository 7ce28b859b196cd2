package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// Logged is an admission that the limiter's state on Redis holds.
type Logged struct {
	// Category is empty in the log of a cap, which Cap names; the user cap has no name.
	UserID, Category, Cap string
	// Token is notification#generation, or a name that a log or counter has made.
	Token string
	At    throttle.Micros
}

// loggedPage is how many admissions of each log are read at a time, loggedAtOnce about how many counters give.
const loggedPage, loggedAtOnce = 50, 2000

// EachLogged calls do, with some thousands at a time, for the admissions that logs and counters hold. One that stands
// in several logs comes once for each, first for that of its category. One may come twice.
func (m *Agendas) EachLogged(ctx context.Context, do func([]Logged) error) error {
	for _, kind := range []string{"l:", "f:", "b:", "cap:", "u:"} {
		read := readLogs
		if kind == "f:" || kind == "b:" {
			read = readCounters
		}
		if err := m.EachKey(ctx, kind, func(node redis.UniversalClient, keys []string) error {
			return read(ctx, node, keys, do)
		}); err != nil {
			return err
		}
	}
	return nil
}

// loggedIn is an admission in the log or counter with a key, which ends in its user, behind the category or the cap.
func loggedIn(key, token string, at int64) Logged {
	one := Logged{Token: token, At: throttle.Micros(at)}
	_, name, _ := strings.Cut(key, "}:")
	switch kind, name, _ := strings.Cut(name, ":"); kind {
	case "u":
		one.UserID = name
	case "cap":
		one.Cap, one.UserID, _ = strings.Cut(name, ":")
	default:
		one.Category, one.UserID, _ = strings.Cut(name, ":")
	}
	return one
}

// readLogs reads logs, a page of each at a time.
func readLogs(ctx context.Context, node redis.UniversalClient, keys []string, do func([]Logged) error) error {
	for from := int64(0); len(keys) > 0; from += loggedPage {
		pipe, pages := node.Pipeline(), make([]*redis.ZSliceCmd, len(keys))
		for i, key := range keys {
			pages[i] = pipe.ZRangeWithScores(ctx, key, from, from+loggedPage-1)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("read the logs of admissions: %w", err)
		}
		var all []Logged
		var longer []string
		for i, key := range keys {
			for _, entry := range pages[i].Val() {
				if token, _ := entry.Member.(string); entry.Score > 0 { // the others say how much the log remembers
					all = append(all, loggedIn(key, token, int64(entry.Score)))
				}
			}
			if len(pages[i].Val()) == loggedPage {
				longer = append(longer, key)
			}
		}
		if err := do(all); err != nil {
			return err
		}
		keys = longer
	}
	return nil
}

// readCounters reads counters, see counters.lua. They hold no moments: admissions when a window began, or when a bucket
// lacked them, fill it as it is.
func readCounters(ctx context.Context, node redis.UniversalClient, keys []string, do func([]Logged) error) error {
	pipe, hashes := node.Pipeline(), make([]*redis.MapStringStringCmd, len(keys))
	for i, key := range keys {
		hashes[i] = pipe.HGetAll(ctx, key)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("read the counters of admissions: %w", err)
	}
	var all []Logged
	for i, key := range keys {
		n := int64(0)
		for _, since := range counterWindows(strings.Contains(key, "}:b:"), hashes[i].Val()) {
			for ; n < since.count; n++ {
				token := "/" + loggedIn(key, "", 0).Category + "#" + strconv.FormatInt(n, 10)
				all = append(all, loggedIn(key, token, since.at))
			}
		}
		if len(all) >= loggedAtOnce || i == len(keys)-1 {
			if err := do(all); err != nil {
				return err
			}
			all = all[:0]
		}
	}
	return nil
}

// admittedSince says that so many were admitted from a moment on.
type admittedSince struct{ at, count int64 }

// counterWindows reads the gap, and the windows or buckets of a counter, the latest first.
func counterWindows(buckets bool, fields map[string]string) []admittedSince {
	number := func(text string) int64 { n, _ := strconv.ParseInt(text, 10, 64); return n } // absent means 0
	all := []admittedSince{{number(fields["g"]), 1}}
	for name, count := range fields {
		if window, found := strings.CutPrefix(name, "n"); found {
			per, _, _ := strings.Cut(window, "/")
			token := int64(1)
			if buckets {
				token = max(1, number(per))
			}
			all = append(all, admittedSince{number(fields["s"+window]), (number(count) + token - 1) / token})
		}
	}
	slices.SortFunc(all, func(x, y admittedSince) int { return cmp.Compare(y.at, x.at) })
	return all
}
