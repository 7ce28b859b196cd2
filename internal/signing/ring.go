package signing

import (
	"context"
	"sync/atomic"
)

// Ring holds keys that others can replace while they are in use. Nil holds none.
type Ring struct{ keys atomic.Pointer[Keys] }

// NewRing makes a ring that holds keys.
func NewRing(keys Keys) *Ring {
	r := &Ring{}
	r.keys.Store(&keys)
	return r
}

// Renew replaces the keys, in the form that a secret's source asks for.
func (r *Ring) Renew(_ context.Context, keys Keys) error {
	r.keys.Store(&keys)
	return nil
}

// Keys are those that it holds now.
func (r *Ring) Keys() Keys {
	if r == nil || r.keys.Load() == nil {
		return nil
	}
	return *r.keys.Load()
}
