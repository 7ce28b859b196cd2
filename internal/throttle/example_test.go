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
