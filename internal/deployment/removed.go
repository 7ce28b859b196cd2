package deployment

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/desk"
	"github.com/pacer-notify/pacer/internal/plural"
	"github.com/pacer-notify/pacer/internal/policy"
)

const (
	// forcedKey is the version of a policy that an operator wants in force although it drops categories for which
	// something waits; forcedLife is how long its file may take to reach all processes.
	forcedKey  = "pacer:policy-forced"
	forcedLife = time.Hour
	// removalPatience bounds how long the stores may take to tell what waits.
	removalPatience = 20 * time.Second
)

// CheckRemoval refuses a policy that lacks a category of the one before, for which something waits, unless an operator
// forced it. It decides for every way in which a policy comes into force in a running deployment.
func (d *Deployment) CheckRemoval(ctx context.Context, before, after *policy.Policy) error {
	gone := slices.DeleteFunc(slices.Sorted(maps.Keys(before.Categories)), func(category string) bool {
		_, stays := after.Category(category)
		return stays
	})
	if len(gone) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removalPatience)
	defer cancel()
	if d.Redis.Client.Get(ctx, forcedKey).Val() == after.Version() { // while Redis is away, nothing is forced
		return nil
	}
	var faults []string
	for _, category := range gone {
		n, more, err := desk.CountWaiting(ctx, d.Store, category)
		waits := plural.Of(n, "waits", "wait")
		switch {
		case err != nil:
			waits = "could not be counted (" + err.Error() + ")"
		case n == 0: // or none of the many that the time sufficed for: if one waits, it is held
			continue
		case more:
			waits = "at least " + waits
		}
		faults = append(faults, category+" is gone and "+waits)
	}
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, ", ") +
		"; keep it until they are out, cancel them, or apply with --force: then they are held until it is back")
}

// ForcePolicy has every process take a version of the policy whatever waits.
func (d *Deployment) ForcePolicy(ctx context.Context, version string) error {
	if err := d.Redis.Client.Set(ctx, forcedKey, version, forcedLife).Err(); err != nil {
		return fmt.Errorf("note that policy version %s is forced: %w", version, err)
	}
	return nil
}
