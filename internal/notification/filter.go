package notification

import "time"

// Filter says which notifications a listing is about. Empty fields leave everything in.
type Filter struct {
	UserID   string
	Status   Status
	Category string
	// Since is the earliest moment of acceptance.
	Since time.Time
	// Limit is how many to list, at least 1.
	Limit int
	// Cursor goes on where a page ended: its [Page.Next].
	Cursor string
}

// Page of a listing, newest first.
type Page struct {
	Items []View
	// Next is the cursor of the next page; empty at the end. A page may hold fewer than asked although there is a next.
	Next string
}
