package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pacer-notify/pacer/internal/agenda/player"
	"github.com/pacer-notify/pacer/internal/nearest"
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
	// Start is the moment from which the times of the case count, unless they are moments themselves. It may be left
	// out.
	Start string      `yaml:"start"`
	Given []given     `yaml:"given"`
	Then  []expecting `yaml:"then"`

	start time.Time
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

// expecting is what becomes of a notification: it goes, or ends otherwise, at a moment and for a reason if they are
// named.
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
	for i, c := range s.Cases {
		if len(c.Then) == 0 {
			return nil, fmt.Errorf("case %d, %q, says nothing under \"then\", so it could not fail", i+1, c.Name)
		}
	}
	return s, nil
}

// Run plays a case under a policy. It returns what did not happen as it should, one sentence for each.
func (c *Case) Run(p *policy.Policy) (wrong []string, err error) {
	s := New(p)
	c.start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if c.Start != "" {
		if c.start, err = time.Parse(time.RFC3339Nano, c.Start); err != nil {
			return nil, fmt.Errorf("start: must be a moment, such as 2026-01-02T15:04:05Z, is %s", nearest.Quote(c.Start))
		}
	}
	arrivals, ids, err := c.arrivals(s.Categories())
	if err != nil {
		return nil, err
	}
	ended := map[string]end{}
	s.Ended = func(n *player.Note, at time.Time) {
		if n.Status == notification.StatusDelivered {
			at = n.Admitted.Time() // it may have been granted ahead
		}
		ended[ids[n.ID]] = end{n, at}
	}
	for i := range arrivals {
		s.Arrive(&arrivals[i])
	}
	s.Finish()
	for i := range c.Then {
		want := &c.Then[i]
		was, given := ended[want.ID]
		if !given {
			return nil, fmt.Errorf("then %d: nothing given has the id %q", i+1, want.ID)
		}
		fault, err := c.compare(want, was)
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
		a, err := c.arrival(g, categories)
		if err != nil {
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
	taken := map[string]bool{}
	for i, g := range given {
		if taken[g.id] {
			return nil, nil, fmt.Errorf("given: two have the id %q", g.id)
		}
		all = append(all, g.Arrival)
		ids[strconv.Itoa(i+1)], taken[g.id] = g.id, true
	}
	return all, ids, nil
}

// arrival is what one of those that are given says.
func (c *Case) arrival(g given, categories []string) (Arrival, error) {
	a := Arrival{
		UserID: g.UserID, Category: g.Category, Priority: g.Priority, Channel: g.Channel, CollapseKey: g.CollapseKey,
		Zone: g.Zone, Outcome: g.Outcome,
	}
	var at, send, expires error
	a.At, at = c.moment("at", g.At)
	a.SendAt, send = c.moment("send_at", g.SendAt)
	a.ExpiresAt, expires = c.moment("expires_at", g.ExpiresAt)
	return a, cmp.Or(at, send, expires, a.Check(categories))
}

// moment reads a moment: RFC 3339, or a time after the start, such as +90s or 0s. Without a text it is zero.
func (c *Case) moment(of, text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil || text == "" {
		return at, nil
	}
	after, err := policy.ParseDuration(strings.TrimPrefix(text, "+"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %q is neither a moment, such as 2026-01-02T15:04:05Z, nor a time after the start, such as +90s or 1d", of, text)
	}
	return c.start.Add(after), nil
}

// end is what became of a notification, and when.
type end struct {
	*player.Note

	at time.Time
}

// compare says what is wrong with what became of a notification; "" when nothing is.
func (c *Case) compare(want *expecting, n end) (string, error) {
	was := string(n.Status)
	if n.Status != notification.StatusDelivered {
		was += ", " + n.Reason + ","
	}
	was += " at " + n.at.UTC().Format(time.RFC3339Nano)
	status := cmp.Or(want.Ended, Delivered)
	if ends := []string{Delivered, Failed, "expired", "replaced"}; !slices.Contains(ends, status) {
		return "", fmt.Errorf("ended: must be one of %s, is %s", strings.Join(ends, ", "), nearest.Quote(status))
	}
	if status != string(n.Status) || want.Reason != "" && want.Reason != n.Reason {
		wanted := status
		if want.Reason != "" {
			wanted += ", " + want.Reason
		}
		return "is " + was + "; want " + wanted, nil
	}
	at, err := c.moment("at", want.At)
	if want.At == "" || err != nil || n.at.Sub(at).Abs() <= throttle.Horizon {
		return "", err
	}
	return "is " + was + "; want " + at.UTC().Format(time.RFC3339Nano), nil
}
