package desk

// Many finds and mends many notifications: it lists them by a filter.
type Many struct {
	Store Lister
	// Names returns the names that a query may use now.
	Names func() Names
}
