package ops

import (
	"time"

	"github.com/pacer-notify/pacer/internal/secret"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// Secret is one that a process reads again when its file changes: the credentials of a channel, a connection string or
// tokens.
type Secret struct {
	Name string `json:"name"`
	// RenewedAt is when the value in force was read.
	RenewedAt time.Time `json:"renewed_at"`
	// Refused is why what the file holds now is not in force, RefusedAt since when; absent when it is.
	Refused   string    `json:"refused,omitempty"`
	RefusedAt time.Time `json:"refused_at,omitzero"`
}

// SecretsOf reports how the secrets of a watcher stand.
func SecretsOf(watched *secret.Watcher) []Secret {
	var secrets []Secret
	for _, state := range watched.States() {
		secrets = append(secrets, Secret(state))
	}
	return secrets
}

// secretProblems are files with a new value that was refused, or without any.
func secretProblems(s *Snapshot, add adder) {
	for _, p := range s.Processes {
		for _, of := range p.Secrets {
			if of.Refused != "" {
				add(toProcesses, "%s has been unable to use the file of %s for %s and keeps its earlier value: %s.", p.ID, of.Name,
					timespan.Seconds(s.At.Sub(of.RefusedAt)), of.Refused)
			}
		}
	}
}
