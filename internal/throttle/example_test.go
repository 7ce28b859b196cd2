package throttle_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
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
	guard := throttle.Middleware{
		Limiter:  throttle.NewMemory(func() time.Time { return noon }),
		Key:      func(r *http.Request) string { return r.Header.Get("Authorization") },
		PerRoute: []throttle.Rule{{Max: 1, Per: time.Second}},
		PerKey:   []throttle.Rule{{Max: 100, Per: time.Minute}},
	}
	handler, err := guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
	at, rule := throttle.Next(now, admitted)
	fmt.Println(at.Sub(now), admitted.Rules[rule])
	// Output: 10s limit 2/1m
}

func ExampleParseAlgorithm() {
	algorithm, known := throttle.ParseAlgorithm("token_bucket")
	fmt.Println(algorithm, known, algorithm.KeepsLog())
	// Output: token_bucket true false
}
