package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Suite is a file of cases, with which a team keeps its policy under test.
type Suite struct {
	// Policy is the policy file, relative to the suite's.
	Policy string `yaml:"policy"`
	Cases  []Case `yaml:"cases"`
}

// Case is what is given, and what has to happen then.
type Case struct {
	Name string `yaml:"name"`
	// Start is the moment from which the times of the case count, unless they are moments themselves.
	Start time.Time   `yaml:"start"`
	Given []given     `yaml:"given"`
	Then  []expecting `yaml:"then"`
}

// given is an arrival. Its id is n1, n2 and so on unless it has one.
type given struct {
	ID          string `yaml:"id"`
	At          string `yaml:"at"`
	UserID      string `yaml:"user_id"`
	Category    string `yaml:"category"`
	Priority    string `yaml:"priority"`
	Channel     string `yaml:"channel"`
	SendAt      string `yaml:"send_at"`
	ExpiresAt   string `yaml:"expires_at"`
	CollapseKey string `yaml:"collapse_key"`
	Zone        string `yaml:"zone"`
	Outcome     string `yaml:"outcome"`
	Times       int    `yaml:"times"`
}

// expecting is what becomes of a notification: it goes at a moment, or ends otherwise, for a reason if one is named.
type expecting struct {
	ID     string `yaml:"id"`
	At     string `yaml:"at"`
	Ended  string `yaml:"ended"`
	Reason string `yaml:"reason"`
}

// ReadSuite reads a file of cases.
func ReadSuite(text []byte) (*Suite, error) {
	s := &Suite{}
	if err := yaml.UnmarshalWithOptions(text, s, yaml.Strict()); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, true))
	}
	if len(s.Cases) == 0 {
		return nil, errors.New("it has no cases: write some under \"cases\"")
	}
	return s, nil
}

// Run plays a case under a policy. It returns what did not happen as it should, one sentence for each.
func (c *Case) Run(p *policy.Policy) (wrong []string, err error) {
	s := New(p)
	arrivals, ids, err := c.arrivals(s.Categories())
	if err != nil {
		return nil, err
	}
	ended := map[string]*player.Note{}
	s.Ended = func(n *player.Note, _ time.Time) { ended[ids[n.ID]] = n }
	for i := range arrivals {
		s.Arrive(&arrivals[i])
	}
	s.Finish()
	for i := range c.Then {
		want := &c.Then[i]
		n := ended[want.ID]
		if n == nil {
			return nil, fmt.Errorf("then %d: nothing given has the id %q", i+1, want.ID)
		}
		fault, err := c.compare(want, n)
		if err != nil {
			return nil, fmt.Errorf("then %d: %w", i+1, err)
		}
		if fault != "" {
			wrong = append(wrong, want.ID+" "+fault)
		}
	}
	return wrong, nil
}

// arrivals are what is given, in order, and the ids in the case of the ids that a simulation gives.
func (c *Case) arrivals(categories []string) (all []Arrival, ids map[string]string, err error) {
	type one struct {
		Arrival
		id string
	}
	var given []one
	for i, g := range c.Given {
		a := Arrival{
			UserID: g.UserID, Category: g.Category, Priority: g.Priority, Channel: g.Channel, CollapseKey: g.CollapseKey,
			Zone: g.Zone, Outcome: g.Outcome,
		}
		var at, send, expires error
		a.At, at = c.moment(g.At)
		a.SendAt, send = c.optional(g.SendAt)
		a.ExpiresAt, expires = c.optional(g.ExpiresAt)
		if err := errors.Join(at, send, expires, a.Check(categories)); err != nil {
			return nil, nil, fmt.Errorf("given %d: %w", i+1, err)
		}
		for n := range max(1, g.Times) {
			id := g.ID
			switch {
			case id == "":
				id = "n" + strconv.Itoa(len(given)+1)
			case g.Times > 1:
				id += "-" + strconv.Itoa(n+1)
			}
			given = append(given, one{a, id})
		}
	}
	slices.SortStableFunc(given, func(a, b one) int { return a.At.Compare(b.At) })
	ids = map[string]string{}
	for i, g := range given {
		all = append(all, g.Arrival)
		ids[strconv.Itoa(i+1)] = g.id
	}
	return all, ids, nil
}

// moment reads a moment: RFC 3339, or a time after the start, such as +90s or 0s.
func (c *Case) moment(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	after, err := time.ParseDuration(strings.TrimPrefix(text, "+"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a moment, such as 2026-01-02T15:04:05Z, nor a time after the start, such as +90s", text)
	}
	if c.Start.IsZero() {
		return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(after), nil
	}
	return c.Start.Add(after), nil
}

func (c *Case) optional(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return c.moment(text)
}

// compare says what is wrong with what became of a notification; "" when nothing is.
func (c *Case) compare(want *expecting, n *player.Note) (string, error) {
	was := fmt.Sprintf("%s at %s", n.Status, n.Admitted.Time().UTC().Format(time.RFC3339Nano))
	if n.Status != notification.StatusDelivered {
		was = string(n.Status) + ", " + n.Reason
	}
	status := want.Ended
	if status == "" {
		status = string(notification.StatusDelivered)
	}
	if status != string(n.Status) || want.Reason != "" && want.Reason != n.Reason {
		wanted := status
		if want.Reason != "" {
			wanted += ", " + want.Reason
		}
		return "is " + was + "; want " + wanted, nil
	}
	if want.At == "" {
		return "", nil
	}
	at, err := c.moment(want.At)
	if err != nil || n.Admitted.Time().Sub(at).Abs() <= throttle.Horizon {
		return "", err
	}
	return "is " + was + "; want " + at.UTC().Format(time.RFC3339Nano), nil
}
