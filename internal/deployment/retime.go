package deployment

import (
	"github.com/pacer-notify/pacer/internal/presence"
	"github.com/pacer-notify/pacer/internal/retime"
)

// Retimer has what waits decided again after a change of the policy. It is for a process with workers.
func (d *Deployment) Retimer(self *presence.Announcer) *retime.Service {
	return retime.New(retime.Config{
		Client: d.Redis.Client, Agendas: d.Agendas, Process: self.ID(), Announce: self.Announce,
		Version: func() string { return d.Rules.Current().Version() }, Log: d.cfg.Log,
	})
}
