package endpoints

import (
	"encoding/json"
	"time"

	"github.com/pacer-notify/pacer/internal/secret"
)

// stored is an endpoint as stores keep it, its secrets in clear.
type stored struct {
	ID          string            `json:"id"`
	URL         string            `json:"url,omitempty"`
	Description string            `json:"description,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Secret      string            `json:"secret,omitempty"`
	Old         []storedSecret    `json:"old,omitempty"`
	CreatedAt   time.Time         `json:"created_at,omitzero"`
	UpdatedAt   time.Time         `json:"updated_at,omitzero"`
	Health      Health            `json:"health,omitzero"`
}

type storedSecret struct {
	Secret string    `json:"secret"`
	Until  time.Time `json:"until"`
}

// encode makes the text that a store keeps.
func encode(e *Endpoint) ([]byte, error) {
	s := stored{
		ID: e.ID, URL: e.URL, Description: e.Description, Headers: e.Headers, Secret: e.Secret.Reveal(),
		CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, Health: e.Health,
	}
	for _, old := range e.Old {
		s.Old = append(s.Old, storedSecret{Secret: old.Secret.Reveal(), Until: old.Until})
	}
	return json.Marshal(s) //nolint:gosec // the store keeps secrets: every call is signed with them
}

// decode reads it.
func decode(text []byte) (Endpoint, error) {
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return Endpoint{}, err
	}
	e := Endpoint{
		ID: s.ID, URL: s.URL, Description: s.Description, Headers: s.Headers, Secret: secret.New(s.Secret),
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Health: s.Health,
	}
	for _, old := range s.Old {
		e.Old = append(e.Old, OldSecret{Secret: secret.New(old.Secret), Until: old.Until})
	}
	return e, nil
}
