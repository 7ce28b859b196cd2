package notification

import "time"

// Filter says which notifications to list. An empty field selects all.
type Filter struct {
	UserID   string
	Status   Status
	Category string
	// Since is the earliest moment of acceptance.
	Since time.Time
	// Limit is how many to list, at least 1.
	Limit int
	// Cursor continues where a page ended: it is that page's [Page.Next].
	Cursor string
}

// Page is a part of a listing, newest first.
type Page struct {
	Items []View
	// Next is the cursor of the next page; empty at the end. A page may hold fewer than the limit although there is a
	// next one.
	Next string
}
