// Package outlook tells what waits in the agendas of a deployment, and what will become of it: it reads them, and plays
// them ahead. It changes nothing.
package outlook

import (
	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Agendas are those of a deployment, with what can be told of them.
type Agendas struct{ *agenda.Agendas }

// Of adds the outlook to agendas.
func Of(agendas *agenda.Agendas) *Agendas { return &Agendas{agendas} }

// planOf is the plan in force for a user's category.
func (a *Agendas) planOf(userID, category string) throttle.Plan {
	return a.SettingsOf(userID, category).Plan
}
