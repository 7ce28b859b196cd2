// Package maintenance looks after the agendas of a deployment as a whole: it builds partitions anew from another store,
// hands them over to one, and lists and verifies what is in them.
package maintenance

import (
	"github.com/pacer-notify/pacer/internal/agenda"
)

// Agendas are those of a deployment, with what maintenance does on them.
type Agendas struct{ *agenda.Agendas }

// Of adds maintenance to agendas.
func Of(agendas *agenda.Agendas) *Agendas { return &Agendas{agendas} }
