// Package leftover finds, for tests, the keys and goroutines that a deployment has left behind when all its
// notifications have ended.
package leftover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/test/apitest"
)

// fixed are the keys that a deployment has when nothing is under way: the number of partitions, the policy, the
// channels, the processes, how far preferences and the policy reached what waits; per partition counts, arrivals, the
// latest sweep, generations and processes, the epoch, the mark and where it was built; and asynq's registers of queues,
// of servers and of what these work on, and its totals.
var fixed = regexp.MustCompile(`^(pacer:(partitions|policy|channels|preferences:woken|\{retime\}|\{processes\}:all` +
	`|\{push-\d+\}:(c|a|sweep|generation|holders|epoch|built|mark))` +
	`|asynq:(queues|servers|workers|schedulers|\{push-\d+\}:(processed|failed)))$`)

// Keys lists those that are neither fixed nor have a time to live.
func Keys(ctx context.Context, client *redis.Client) ([]string, error) {
	var left []string
	for scan := client.Scan(ctx, 0, "*", 1000).Iterator(); ; {
		if !scan.Next(ctx) {
			return left, scan.Err()
		}
		key := scan.Val()
		if fixed.MatchString(key) {
			continue
		}
		ttl, err := client.TTL(ctx, key).Result()
		if err != nil {
			return nil, err
		}
		if ttl == -1 { // no time to live; -2 is a key that has gone meanwhile
			left = append(left, key)
		}
	}
}

// same begins each stack of a profile: how many goroutines have it.
var same = regexp.MustCompile(`(?m)^(\d+) @ `)

// Goroutines counts those of a process whose ops pages are at an address, without net/http's own: it keeps connections
// for a while.
func Goroutines(ctx context.Context, address string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/debug/pprof/goroutine?debug=1",
		http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := apitest.Once.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }() // it has been read
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("ask for the goroutines: %s", response.Status)
	}
	return count(string(text))
}

func count(profile string) (int, error) {
	n := 0
	for stack := range strings.SplitSeq(profile, "\n\n") {
		if strings.Contains(stack, "net/http.(*persistConn)") || strings.Contains(stack, "net/http.(*conn)") {
			continue
		}
		if found := same.FindStringSubmatch(stack); found != nil {
			number, err := strconv.Atoi(found[1])
			if err != nil {
				return 0, err
			}
			n += number
		}
	}
	if n == 0 {
		return 0, errors.New("the profile has no goroutines")
	}
	return n, nil
}
