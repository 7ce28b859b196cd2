package deployment

import (
	"errors"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/control"
	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/effective"
	"github.com/pacer-notify/pacer/internal/httpapi"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/channel"
	"github.com/pacer-notify/pacer/internal/settings"
)

// Rules decide what is accepted, and under which limits: the policy in force and the deployment's channels.
type Rules struct {
	*effective.Policy
	channel.Set

	paused func() []control.Subject
}

// Heed has what operators paused hold back what waits: wait says for how long a subject is waited for, 0 for not, and
// paused lists them.
func (r *Rules) Heed(wait func(kind control.Kind, name string) time.Duration, paused func() []control.Subject) {
	r.PausedFor = func(category string) time.Duration { return wait(control.Category, category) }
	r.paused = paused
}

// Paused is what operators paused, beside categories.
func (r *Rules) Paused() (paused agenda.Paused) {
	if r.paused == nil {
		return paused
	}
	for _, s := range r.paused() {
		switch partition, err := strconv.Atoi(s.Name); {
		case s.Kind == control.Channel:
			paused.Channels = append(paused.Channels, s.Name)
		case s.Kind == control.Partition && err == nil:
			paused.Partitions = append(paused.Partitions, partition)
		}
	}
	return paused
}

// Vocabulary are the names that a query for notifications may use.
func (r *Rules) Vocabulary() desk.Names {
	return desk.Names{Categories: r.CategoryNames(), Channels: r.Set.Names()}
}

// Deliveries returns what holds for the deliveries of a category over a channel.
func (r *Rules) Deliveries(category string, channel notification.Channel) dispatch.Settings {
	return r.Policy.Deliveries(category, channel, r.Set[channel].Delivery)
}

// Life is how long a notification of a category over a channel takes at most, see [effective.Policy.Life].
func (r *Rules) Life(category string, channel notification.Channel) time.Duration {
	return r.Policy.Life(category, channel, r.Set[channel].Delivery)
}

// MaxLife is how long a notification of a category over a channel may take, see [effective.Policy.MaxLife].
func (r *Rules) MaxLife(category string, channel notification.Channel) time.Duration {
	return r.Policy.MaxLife(category, channel, r.Set[channel].Delivery)
}

// check refuses a notification that a producer wrote into the database when its category is unknown or its channel
// does not take it. The database has checked the rest.
func (r *Rules) check(n *notification.Notification) error {
	return errors.Join(n.CheckContent(r.MaxContent(n.Channel)), r.CheckCategory(n.Category), r.CheckDelivery(n))
}

// Formats are the formats of their own that channels have: those of all kinds, and of the deployment's senders with
// names.
func (r *Rules) Formats() []httpapi.Channel {
	var formats []httpapi.Channel
	for _, d := range (settings.Channels{}).All() {
		formats = append(formats, httpapi.Channel{Name: d.Name, OwnFormat: d.OwnFormat})
	}
	for _, name := range r.Set.Names() {
		if d := r.Set[notification.Channel(name)]; d.Name.Kind() != d.Name {
			formats = append(formats, httpapi.Channel{Name: d.Name, OwnFormat: d.OwnFormat})
		}
	}
	return formats
}

// Users keeps what the deployment's users want.
func (d *Deployment) Users() httpapi.Users { return Users{UserStore: d.Store, deployment: d} }

// Windows are the windows of the deployment's users, to look at and to clear.
func (d *Deployment) Windows() httpapi.Windows {
	w := httpapi.Windows{Agendas: d.Agendas, Audit: d.Control}
	if d.Postgres != nil {
		w.Note = d.Postgres.NoteCleared
	}
	return w
}
