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
	Health      storedHealth      `json:"health,omitzero"`
}

type storedSecret struct {
	Secret string    `json:"secret"`
	Until  time.Time `json:"until"`
}

type storedHealth struct {
	LastSuccess     time.Time `json:"last_success,omitzero"`
	LastFailure     time.Time `json:"last_failure,omitzero"`
	Failure         string    `json:"failure,omitempty"`
	Reply           string    `json:"reply,omitempty"`
	FailingSince    time.Time `json:"failing_since,omitzero"`
	Failures        int       `json:"failures,omitempty"`
	Parts           int       `json:"parts,omitempty"`
	Part            int       `json:"part,omitempty"`
	DisabledAt      time.Time `json:"disabled_at,omitzero"`
	DisabledBecause string    `json:"disabled_because,omitempty"`
	CountsFrom      time.Time `json:"counts_from,omitzero"`
}

// encode makes the text that a store keeps.
func encode(e *Endpoint) ([]byte, error) {
	s := stored{
		ID: e.ID, URL: e.URL, Description: e.Description, Headers: e.Headers, Secret: e.Secret.Reveal(),
		CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, Health: storedHealth(e.Health),
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
		CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt, Health: Health(s.Health),
	}
	for _, old := range s.Old {
		e.Old = append(e.Old, OldSecret{Secret: secret.New(old.Secret), Until: old.Until})
	}
	return e, nil
}
