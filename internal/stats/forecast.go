package stats

import "time"

// Forecast says what is held now, and what of it will be released when, by the limits and the hours in force. Nothing
// that comes meanwhile is in it.
type Forecast struct {
	// From is when the slice of time began in which it was made. The slices follow each other from there on.
	From  time.Time `json:"from"`
	Slice float64   `json:"slice_seconds"`
	// Reasons has what is held for each reason, the most first.
	Reasons []Held `json:"reasons,omitempty"`
	// Exact is false when a part of what waits was read, and stands for the rest.
	Exact bool `json:"exact"`
}

// The reasons of a [Forecast] beside those that a policy names.
const (
	HeldByLimits    = "limits"
	HeldByUserCap   = "user_cap"
	HeldBySchedule  = "scheduled"
	HeldForRetry    = "retrying"
	HeldForProvider = "provider"
)

// Held is what is held for one reason.
type Held struct {
	Reason string `json:"reason"`
	Count  int64  `json:"count"`
	// First and Last are when the first and the last of it will be released; zero for what is paused.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	// Released counts by slice of time; Later is released after the last of them.
	Released []int64 `json:"released"`
	Later    int64   `json:"later,omitempty"`
}
