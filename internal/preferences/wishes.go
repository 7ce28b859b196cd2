package preferences

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// wishes has each wish once, for as long as a user has it, and each time zone once.
type wishes struct {
	mu     sync.Mutex
	byText map[string]*Wish
	zones  map[string]*time.Location
}

// take returns the wish that preferences are, for one more user.
func (w *wishes) take(p *notification.Preferences) (*Wish, error) {
	of := *p
	of.QuietUntil = time.Time{} // it tells no wishes apart
	raw, err := json.Marshal(of)
	if err != nil {
		return none, fmt.Errorf("read a user's preferences: %w", err)
	}
	if string(raw) == "{}" {
		return none, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	wish := w.byText[string(raw)]
	if wish == nil {
		wish, err = w.read(&of)
		wish.text = string(raw)
		w.byText[wish.text] = wish
	}
	wish.users++
	return wish, err
}

// release says that a user no longer has a wish.
func (w *wishes) release(wish *Wish) {
	if wish == none {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if wish.users--; wish.users == 0 {
		delete(w.byText, wish.text)
	}
}

// each calls do for each wish.
func (w *wishes) each(do func(w *Wish, users int)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wish := range w.byText {
		do(wish, wish.users)
	}
}

// read parses what a user wants. What can't be read, because another version wrote it, does not hold: the policy does.
func (w *wishes) read(of *notification.Preferences) (*Wish, error) {
	wish := &Wish{OptOutCategories: of.OptOutCategories, OptOutChannels: of.OptOutChannels}
	var faults []error
	if of.TimeZone != "" {
		var err error
		wish.Zone, err = w.zone(of.TimeZone)
		faults = append(faults, err)
	}
	if len(of.QuietHours) > 0 && !bytes.Equal(of.QuietHours, []byte("null")) {
		hours, err := policy.ParseOwnHours(of.QuietHours)
		if err == nil {
			wish.Hours, wish.HoursText = hours, string(of.QuietHours)
		}
		faults = append(faults, err)
	}
	for category, text := range of.Limits {
		rules, err := policy.ParseLimits(text)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if wish.Limits == nil {
			wish.Limits = map[string][]throttle.Rule{}
		}
		wish.Limits[category] = rules
	}
	return wish, errors.Join(faults...)
}

// zone returns the zone with a name.
func (w *wishes) zone(name string) (*time.Location, error) {
	if zone := w.zones[name]; zone != nil {
		return zone, nil
	}
	zone, err := calendar.ParseZone(name)
	if err == nil {
		w.zones[name] = zone
	}
	return zone, err
}
