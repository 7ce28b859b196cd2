package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	storepostgres "github.com/pacer-notify/pacer/internal/store/postgres"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// users keeps what users want, checked against the policy and the channels.
type users struct {
	*storepostgres.Store
	rules *rules
}

// SetPreferences implements httpapi's Users.
func (u users) SetPreferences(ctx context.Context, userID string, p *notification.Preferences) error {
	var faults []error
	for i, category := range p.OptOutCategories {
		if !u.rules.HasCategory(category) {
			faults = append(faults, fault("opt_out.categories[%d]", "is not named in the policy", i))
		}
	}
	for i, channel := range p.OptOutChannels {
		if _, ok := u.rules.channels[notification.Channel(channel)]; !ok {
			faults = append(faults, fault("opt_out.channels[%d]", "is not a configured channel", i))
		}
	}
	for category, limits := range p.Limits {
		if !u.rules.HasCategory(category) {
			faults = append(faults, fault("limits.%s", "is not named in the policy", category))
		}
		if _, err := parseOwnLimits(limits); err != nil {
			faults = append(faults, fault("limits.%s", err.Error(), category))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return u.Store.SetPreferences(ctx, userID, p)
}

func fault(field, message string, args ...any) error {
	return &notification.FieldError{Field: fmt.Sprintf(field, args...), Message: message}
}

func parseOwnLimits(text json.RawMessage) ([]throttle.Rule, error) { return policy.ParseLimits(text) }

// openOwnLimits has users' own limits replace those of the policy.
func (a *App) openOwnLimits(ctx context.Context, store *storepostgres.Store) error {
	own := storepostgres.NewOwnLimits(store, parseOwnLimits, a.limitsChanged)
	if err := own.Refresh(ctx); err != nil {
		return err
	}
	a.rules.own = own
	return nil
}

// limitsChanged has what waits for a user ask again under his new limits.
func (a *App) limitsChanged(ctx context.Context, userID string) {
	a.checker.Exempt(userID)
	if a.workers == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := a.agendas.WakePersonal(ctx, userID); err != nil {
		a.log.WarnContext(ctx, "could not reschedule what waits under a user's changed limits; it keeps its slot",
			"user_id", userID, "error", err)
	}
}
