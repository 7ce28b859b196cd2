package throttle_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// noon is when the clocks of the examples stand.
var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// chat allows two a minute, three seconds apart, and counts for a cap of ten an hour over all of a user's categories.
var chat = throttle.Plan{Rules: []throttle.Rule{
	{Max: 2, Per: time.Minute},
	{Max: 1, Per: 3 * time.Second, Kind: throttle.KindGap},
	{Max: 10, Per: time.Hour, Kind: throttle.KindCap},
}}

func ExampleMiddleware() {
	limits := throttle.Middleware{
		Limiter:  throttle.NewMemory(func() time.Time { return noon }),
		Key:      func(r *http.Request) string { return r.Header.Get("Authorization") },
		PerRoute: []throttle.Rule{{Max: 1, Per: time.Second}},
		PerKey:   []throttle.Rule{{Max: 100, Per: time.Minute}},
	}
	handler, err := limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	if err != nil {
		panic(err)
	}
	for range 2 {
		request := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/v1/stats", http.NoBody)
		request.Header.Set("Authorization", "Bearer secret")
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		fmt.Println(response.Code, response.Header().Values("RateLimit"))
		fmt.Printf("Retry-After: %q\n", response.Header().Get("Retry-After"))
	}
	// Output:
	// 204 ["rule1";r=0;t=1 "rule2";r=99;t=60]
	// Retry-After: ""
	// 429 ["rule1";r=0;t=1 "rule2";r=99;t=60]
	// Retry-After: "1"
}

func ExampleLimiter_allow() {
	limiter := throttle.NewMemory(func() time.Time { return noon })
	ada := throttle.Key{User: "ada", Category: "chat"}
	for _, token := range []string{"first", "second"} {
		d, err := limiter.Allow(context.Background(), ada, chat, token)
		if err != nil {
			panic(err)
		}
		if d.Allowed {
			fmt.Println(token, "may go")
		} else {
			fmt.Println(token, "waits", d.Wait(), "for", chat.Rules[d.Rule])
		}
	}
	// Output:
	// first may go
	// second waits 3s for min_gap 3s
}

func ExampleLimiter_refund() {
	ctx := context.Background()
	limiter := throttle.NewMemory(func() time.Time { return noon })
	ada := throttle.Key{User: "ada", Category: "chat"}
	first, err := limiter.Allow(ctx, ada, chat, "first")
	if err != nil {
		panic(err)
	}
	refunded, err := limiter.Refund(ctx, ada, chat, "first", first.At)
	if err != nil {
		panic(err)
	}
	second, err := limiter.Allow(ctx, ada, chat, "second")
	fmt.Println(refunded, second.Allowed, err)
	// Output: true true <nil>
}

func ExampleLimiter_peek() {
	ctx := context.Background()
	limiter := throttle.NewMemory(func() time.Time { return noon })
	ada := throttle.Key{User: "ada", Category: "chat"}
	if _, err := limiter.Allow(ctx, ada, chat, "first"); err != nil {
		panic(err)
	}
	usage, err := limiter.Peek(ctx, ada, chat)
	if err != nil {
		panic(err)
	}
	for _, u := range usage.Rules {
		fmt.Printf("%s: %d used, %d left, frees in %s\n", u.Rule, u.Used, u.Remaining(), u.FreesAt.Sub(usage.Now))
	}
	// Output:
	// limit 2/1m: 1 used, 1 left, frees in 1m0s
	// min_gap 3s: 1 used, 0 left, frees in 3s
	// user_cap 10/1h: 1 used, 9 left, frees in 1h0m0s
}

func ExamplePlan_Validate() {
	plan := throttle.Plan{Rules: []throttle.Rule{{Max: 1, Per: time.Second}, {Max: 5, Per: time.Second}}}
	fmt.Println(plan.Validate())
	// Output: rules 1 and 2 (limit 1/1s, limit 5/1s) have the same window: keep the smaller
}

func ExamplePlan_WithOwnLimits() {
	quiet := chat.WithOwnLimits([]throttle.Rule{{Max: 1, Per: time.Hour}})
	fmt.Println(quiet.Rules, "in place of", quiet.Dormant)
	// Output: [limit 1/1h user_cap 10/1h] in place of [limit 2/1m min_gap 3s]
}

func ExampleNext() {
	now := throttle.MicrosOf(noon)
	admitted := throttle.Log{
		Rules:    []throttle.Rule{{Max: 2, Per: time.Minute}},
		Admitted: []throttle.Micros{now.Add(-50 * time.Second), now.Add(-10 * time.Second)},
	}
	at, by := throttle.Next(now, nil, admitted)
	fmt.Println(at.Sub(now), admitted.Rules[by.Rule])
	night := throttle.Closed{{From: now, Until: now.Add(8 * time.Hour)}}
	at, by = throttle.Next(now, night, admitted)
	fmt.Println(at.Sub(now), by.Closed)
	// Output:
	// 10s limit 2/1m
	// 8h0m0s true
}

func ExampleParseAlgorithm() {
	algorithm, known := throttle.ParseAlgorithm("token_bucket")
	fmt.Println(algorithm, known, algorithm.KeepsLog())
	// Output: token_bucket true false
}

func ExampleMemory() {
	now := time.Unix(1_800_000_000, 0)
	limiter := throttle.NewMemory(func() time.Time { return now })
	plan := throttle.Plan{Rules: []throttle.Rule{
		{Max: 2, Per: time.Minute}, {Max: 1, Per: 3 * time.Second, Kind: throttle.KindGap},
	}}
	ada := throttle.Key{User: "ada", Category: "chat"}
	for i := range 3 {
		d, err := limiter.Allow(context.Background(), ada, plan, strconv.Itoa(i))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(d.Allowed, d.Wait())
		now = now.Add(2 * time.Second)
	}
	// Output:
	// true 0s
	// false 1s
	// true 0s
}

// Several windows and a minimum gap hold together: the plan allows what every rule allows.
func Example_severalWindows() {
	limiter := newClock(noon)
	plan := throttle.Plan{Rules: []throttle.Rule{
		{Max: 3, Per: time.Minute},
		{Max: 5, Per: time.Hour},
		{Max: 1, Per: 2 * time.Second, Kind: throttle.KindGap},
	}}
	for i := range 6 {
		waited, rules := limiter.admit(plan, strconv.Itoa(i))
		fmt.Println(i+1, "goes at", limiter.now.Sub(noon), "after waiting", waited, "for", rules)
	}
	// Output:
	// 1 goes at 0s after waiting 0s for []
	// 2 goes at 2s after waiting 2s for [min_gap 2s]
	// 3 goes at 4s after waiting 2s for [min_gap 2s]
	// 4 goes at 1m0s after waiting 56s for [limit 3/1m]
	// 5 goes at 1m2s after waiting 2s for [limit 3/1m]
	// 6 goes at 1h0m0s after waiting 58m58s for [limit 5/1h]
}

// A token bucket lets a burst through and then refills evenly. A rolling window gives the burst's slots back all at
// once.
func Example_tokenBucket() {
	limits := []throttle.Rule{{Max: 3, Per: time.Minute}}
	for _, algorithm := range []throttle.Algorithm{throttle.Rolling, throttle.TokenBucket} {
		limiter := newClock(noon)
		fmt.Print(algorithm, ":")
		for i := range 6 {
			limiter.admit(throttle.Plan{Algorithm: algorithm, Rules: limits}, strconv.Itoa(i))
			fmt.Print(" ", limiter.now.Sub(noon))
		}
		fmt.Println()
	}
	// Output:
	// rolling: 0s 0s 0s 1m0s 1m0s 1m0s
	// token_bucket: 0s 0s 0s 20s 40s 1m0s
}

// A cap counts all categories of a user, and each category has limits of its own.
func Example_userCap() {
	ctx := context.Background()
	limiter := throttle.NewMemory(func() time.Time { return noon })
	hourly := throttle.Rule{Max: 3, Per: time.Hour, Kind: throttle.KindCap}
	plans := map[string]throttle.Plan{
		"chat":  {Rules: []throttle.Rule{{Max: 2, Per: time.Minute}, hourly}},
		"likes": {Rules: []throttle.Rule{{Max: 9, Per: time.Minute}, hourly}},
	}
	for i, category := range []string{"chat", "chat", "chat", "likes", "likes"} {
		plan := plans[category]
		d, err := limiter.Allow(ctx, throttle.Key{User: "ada", Category: category}, plan, strconv.Itoa(i))
		if err != nil {
			panic(err)
		}
		if d.Allowed {
			fmt.Println(category, "goes")
		} else {
			fmt.Println(category, "waits", d.Wait(), "for", plan.Rules[d.Rule])
		}
	}
	// Output:
	// chat goes
	// chat goes
	// chat waits 1m0s for limit 2/1m
	// likes goes
	// likes waits 1h0m0s for user_cap 3/1h
}

// A repeated call with the same token counts once: that is what to do when a reply was lost.
func ExampleLimiter_spend() {
	ctx := context.Background()
	limiter := throttle.NewMemory(func() time.Time { return noon })
	ada := throttle.Key{User: "ada", Category: "chat"}
	for range 2 {
		usage, err := limiter.Spend(ctx, ada, chat, "request-1")
		if err != nil {
			panic(err)
		}
		fmt.Println(usage.Allowed, usage.Rules[0].Used, "used of", usage.Rules[0].Rule)
	}
	// Output:
	// true 1 used of limit 2/1m
	// true 1 used of limit 2/1m
}

// With a pattern for the route, all orders share one limit, whatever their ids are.
func ExampleMiddleware_route() {
	limits := throttle.Middleware{
		Limiter:  throttle.NewMemory(func() time.Time { return noon }),
		Key:      func(r *http.Request) string { return r.Header.Get("X-Tenant") },
		Route:    func(r *http.Request) string { return r.Pattern },
		PerRoute: []throttle.Rule{{Max: 2, Per: time.Minute}},
	}
	api := http.NewServeMux()
	orders, err := limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
	}))
	if err != nil {
		panic(err)
	}
	api.Handle("POST /orders/{id}", orders)
	for _, path := range []string{"/orders/1", "/orders/2", "/orders/3"} {
		request := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, http.NoBody)
		request.Header.Set("X-Tenant", "acme")
		response := httptest.NewRecorder()
		api.ServeHTTP(response, request)
		fmt.Printf("%s: %d, Retry-After %q\n", path, response.Code, response.Header().Get("Retry-After"))
	}
	// Output:
	// /orders/1: 202, Retry-After ""
	// /orders/2: 202, Retry-After ""
	// /orders/3: 429, Retry-After "60"
}

// clock is a limiter on a clock that moves to the moment for which a caller waits.
type clock struct {
	*throttle.Memory
	now time.Time
}

func newClock(start time.Time) *clock {
	c := &clock{now: start}
	c.Memory = throttle.NewMemory(func() time.Time { return c.now })
	return c
}

// admit waits until the plan allows one more, and returns how long that took, and the rules behind it.
func (c *clock) admit(plan throttle.Plan, token string) (waited time.Duration, rules []throttle.Rule) {
	for {
		d, err := c.Allow(context.Background(), throttle.Key{User: "ada", Category: "chat"}, plan, token)
		if err != nil {
			panic(err)
		}
		if d.Allowed {
			return waited, rules
		}
		waited, rules = waited+d.Wait(), append(rules, plan.Rules[d.Rule])
		c.now = c.now.Add(d.Wait())
	}
}

// A projection reports when each of many that wait will go, without waiting for it.
func ExampleProjection() {
	plan := throttle.Plan{Rules: []throttle.Rule{
		{Max: 10, Per: time.Minute}, {Max: 1, Per: 3 * time.Second, Kind: throttle.KindGap},
	}}
	noon := time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)
	key := throttle.Key{User: "ada", Category: "chat"}
	p := throttle.NewProjection(throttle.MicrosOf(noon), key, plan, nil, nil)

	before := 0
	for _, place := range []int{1, 2, 11, 100_000} {
		p.Advance(place-1-before, throttle.Asking{}, math.MaxInt64)
		before = place - 1
		at, by := p.Next(throttle.MicrosOf(noon), throttle.Asking{})
		fmt.Println(place, at.Time().UTC().Format(time.DateTime), by.Rule)
	}
	// Output:
	// 1 2026-01-02 12:00:00 -1
	// 2 2026-01-02 12:00:03 1
	// 11 2026-01-02 12:01:00 0
	// 100000 2026-01-09 10:39:27 0
}
