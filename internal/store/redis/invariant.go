package redis

import (
	"context"
	"time"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/dispatch"
	"github.com/pacer-notify/pacer/internal/invariant"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Admissions implements [invariant.Source]. It finds only a part of the admissions: Redis keeps the latest attempt of a
// notification, until a day after the notification has ended.
func (s *Store) Admissions(ctx context.Context, after, until throttle.Micros,
	window func(userID string) time.Duration,
) ([]invariant.Admission, error) {
	fresh, all := map[string]bool{}, []invariant.Admission(nil)
	err := s.agendas.EachKnown(ctx, func(n agenda.Known) error {
		if n.Status != notification.StatusDelivered || n.Refunded || n.AdmittedAt > until ||
			n.AdmittedAt <= throttle.MicrosOf(after.Time().Add(-window(n.UserID))) {
			return nil
		}
		if n.AdmittedAt > after {
			fresh[n.UserID] = true
		}
		decoded, err := decode(n.ID, dispatch.Backlog{UserID: n.UserID, Category: n.Category}, n.AcceptedAt, n.Payload)
		if err != nil {
			return err
		}
		all = append(all, invariant.Admission{
			ID: n.ID, UserID: n.UserID, Category: n.Category, Channel: string(decoded.Channel), At: n.AdmittedAt,
			Priority: notification.Priority(n.Priority), ExpiresAt: n.ExpiresAt,
			Version: n.Basis.PolicyVersion, Zone: n.Basis.Zone,
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	kept := all[:0]
	for _, m := range all {
		if fresh[m.UserID] {
			kept = append(kept, m)
		}
	}
	return kept, nil
}

// EachOpen implements [invariant.Source].
func (s *Store) EachOpen(ctx context.Context, before time.Time, do func(invariant.Open) error) error {
	return s.agendas.EachKnown(ctx, func(n agenda.Known) error {
		if n.Status.Ended() || !n.AcceptedAt.Before(before) {
			return nil
		}
		decoded, err := decode(n.ID, dispatch.Backlog{UserID: n.UserID, Category: n.Category}, n.AcceptedAt, n.Payload)
		if err != nil {
			return err
		}
		o := invariant.Open{
			ID: n.ID, UserID: n.UserID, Category: n.Category, Channel: string(decoded.Channel), Since: n.AcceptedAt,
			ExpiresAt: n.ExpiresAt,
		}
		if n.SendAt.After(o.Since) {
			o.Since = n.SendAt
		}
		return do(o)
	})
}
