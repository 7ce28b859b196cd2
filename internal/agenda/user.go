package agenda

import "context"

// UserAgenda is everything that waits for one user.
type UserAgenda struct{}

// UserAgenda returns everything that waits for a user.
func (s *Agendas) UserAgenda(context.Context, string) (*UserAgenda, error) { return &UserAgenda{}, nil }
