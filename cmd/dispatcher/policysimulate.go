package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/simulate"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/stream"
	"github.com/pacer-notify/pacer/internal/timespan"
)

// recorded are the arrivals that Postgres has.
type recorded struct {
	DatabaseURL string `name:"database-url" env:"DATABASE_URL" placeholder:"URL" help:"Postgres that keeps the store, for --since: postgres://..., or file:PATH."`
	Since       string `name:"since" env:"-" placeholder:"DURATION" help:"What Postgres has accepted since this long ago, such as 7d."`
}

// recordedPatience is how long each wait for Postgres may take.
const recordedPatience = 30 * time.Second

// each calls do with the arrivals in order.
func (r recorded) each(ctx context.Context, do func(*stream.Arrival) error) error {
	ago, err := policy.ParseDuration(r.Since)
	if err != nil || ago <= 0 {
		return fmt.Errorf("--since %q is no duration, such as 7d", r.Since)
	}
	if r.DatabaseURL == "" {
		return errors.New("--since needs Postgres (--database-url, DATABASE_URL): without it, pacer keeps what it accepted for a day only. Give recorded arrivals with --from FILE instead")
	}
	url, err := settings.ReadDatabaseURL("--database-url (DATABASE_URL)", r.DatabaseURL)
	if err != nil {
		return err
	}
	pool, err := connect.Open(ctx, url, nil)
	if err != nil {
		return err
	}
	defer pool.Close()
	return stream.Arrivals(ctx, limited.New(pool, recordedPatience), time.Now().Add(-ago), do)
}

// arrivalOf is what a simulation takes.
func arrivalOf(a *stream.Arrival) *simulate.Arrival {
	arrival := &simulate.Arrival{
		At: a.CreatedAt.UTC(), UserID: a.UserID, Category: a.Category, Priority: a.Priority.String(),
		Channel: string(a.Channel), SendAt: a.SendAt, ExpiresAt: a.ExpiresAt, CollapseKey: a.CollapseKey, Zone: a.Zone,
	}
	if a.Failed {
		arrival.Outcome = string(notification.StatusFailed)
	}
	return arrival
}

type policyRecordCommand struct{ recorded }

// Run prints what was accepted as arrivals, a line each. Users are told apart, and not named.
func (c *policyRecordCommand) Run(ctx context.Context, to streams) error {
	if c.Since == "" {
		c.Since = "7d"
	}
	key := []byte(rand.Text())
	out := json.NewEncoder(to.out)
	return c.each(ctx, func(a *stream.Arrival) error {
		user := hmac.New(sha256.New, key)
		_, _ = user.Write([]byte(a.UserID)) // a hash takes everything
		a.UserID = "u" + hex.EncodeToString(user.Sum(nil)[:8])
		return out.Encode(arrivalOf(a))
	})
}

type policySimulateCommand struct {
	recorded
	File    string   `arg:"" help:"Policy file to play the arrivals under." type:"path"`
	Against string   `name:"against" env:"-" placeholder:"FILE" type:"path" help:"Policy file to compare with."`
	From    string   `name:"from" env:"-" placeholder:"FILE" help:"Recorded arrivals, one JSON object a line, as dispatcher policy record prints them; - for the standard input."`
	Sort    bool     `name:"sort" env:"-" help:"Sort the arrivals by time first: all of them are held in memory."`
	JSON    bool     `name:"json" env:"-" help:"Print JSON, for programs."`
	FailIf  []string `name:"fail-if" env:"-" sep:"none" placeholder:"CONDITION" help:"Exit 1 when this holds, such as 'chat.expired > 0.1%' or 'wait_p95 > 10m'. May be given several times."`
}

// errConditionHolds is the short end of a longer output.
var errConditionHolds = errors.New("a condition of --fail-if holds")

// Run plays recorded arrivals under a policy. It asks nothing of a deployment, and changes nothing.
func (c *policySimulateCommand) Run(ctx context.Context, to streams) error {
	under, err := readPolicy(c.File, to)
	if err != nil {
		return err
	}
	var against *policy.Policy
	if c.Against != "" {
		if against, err = readPolicy(c.Against, to); err != nil {
			return err
		}
	}
	var conditions []*simulate.Condition
	for _, text := range c.FailIf {
		condition, err := simulate.ParseCondition(text, slices.Sorted(maps.Keys(under.Categories)))
		if err != nil {
			return fmt.Errorf("--fail-if %w", err)
		}
		conditions = append(conditions, condition)
	}
	report, err := simulate.Compare(func(categories []string, do func(*simulate.Arrival) error) error {
		return c.read(ctx, to, categories, do)
	}, under, against)
	if err != nil {
		return err
	}
	if err := c.print(to.out, report); err != nil {
		return err
	}
	holds := false
	for _, condition := range conditions {
		if found, held := condition.Holds(report); held {
			_, _ = fmt.Fprintln(to.err, found) // the exit code counts
			holds = true
		}
	}
	if holds {
		return errConditionHolds
	}
	return nil
}

// read reads the arrivals from where the command says.
func (c *policySimulateCommand) read(ctx context.Context, to streams, categories []string,
	do func(*simulate.Arrival) error,
) error {
	switch {
	case (c.From == "") == (c.Since == ""):
		return errors.New("say where the arrivals are: --from FILE, or --since DURATION for what Postgres has accepted")
	case c.Since != "":
		return c.each(ctx, func(a *stream.Arrival) error {
			arrival := arrivalOf(a)
			if err := arrival.Check(categories); err != nil {
				return fmt.Errorf("notification %s: %w", a.ID, err)
			}
			return do(arrival)
		})
	case c.From == "-":
		return simulate.Read(os.Stdin, categories, c.Sort, do)
	}
	file, err := os.Open(c.From)
	if err != nil {
		return fmt.Errorf("the arrivals can't be read: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	from := &shownReader{from: file, to: to.err}
	if about, err := file.Stat(); err == nil && isTerminal(to.err) {
		from.size = about.Size()
	}
	if err := simulate.Read(from, categories, c.Sort, do); err != nil {
		return fmt.Errorf("%s: %w", c.From, err)
	}
	return nil
}

// shownReader shows how much of a file was read, on a terminal.
type shownReader struct {
	from       io.Reader
	to         io.Writer
	size, read int64 // a size of 0 shows nothing
	shown      int64
}

// Read implements [io.Reader].
func (p *shownReader) Read(into []byte) (int, error) {
	n, err := p.from.Read(into)
	if p.read += int64(n); p.size > 0 {
		if percent := 100 * p.read / p.size; percent > p.shown || err != nil {
			p.shown = percent
			_, _ = fmt.Fprintf(p.to, "\rread %3d %%", percent) // what can't be shown is not missed
		}
		if err != nil {
			_, _ = fmt.Fprint(p.to, "\r\033[K")
		}
	}
	return n, err
}

// print prints a report: a line for each category, and one for all.
func (c *policySimulateCommand) print(to io.Writer, r *simulate.Report) error {
	if c.JSON {
		return json.NewEncoder(to).Encode(r)
	}
	t := &table{}
	t.add("CATEGORY", "POLICY", "ARRIVALS", "DELIVERED", "DEFERRED", "WAIT P50", "P95", "P99", "MAX", "USERS", "PEAK/S", "ENDED")
	name := filepath.Base(c.File)
	for _, category := range append(slices.Sorted(maps.Keys(r.Categories)), "") {
		figures := func(of *simulate.Report) simulate.Figures {
			if category == "" {
				return of.All
			}
			return of.Categories[category]
		}
		shown := category
		if category == "" {
			shown = "all"
		}
		t.add(figuresRow(shown, name, figures(r))...)
		if r.Against != nil {
			t.add(figuresRow("", filepath.Base(c.Against), figures(r.Against))...)
		}
	}
	return t.write(to)
}

// figuresRow is a line of the table.
func figuresRow(category, policy string, f simulate.Figures) []string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	wait := func(seconds float64) string {
		d := time.Duration(seconds * float64(time.Second))
		return timespan.Text(d.Round(max(time.Millisecond, roundTo(d))))
	}
	deferred := "0 %"
	if f.Arrivals > 0 {
		deferred = fmt.Sprintf("%.1f %%", 100*float64(f.Deferred)/float64(f.Arrivals))
	}
	ended := ""
	for _, how := range slices.Sorted(maps.Keys(f.Ended)) {
		if ended != "" {
			ended += ", "
		}
		ended += number(f.Ended[how]) + " " + how
	}
	return []string{
		category, policy, number(f.Arrivals), number(f.Delivered), deferred, wait(f.Wait.P50), wait(f.Wait.P95),
		wait(f.Wait.P99), wait(f.Wait.Max), strconv.Itoa(f.Users), number(f.Peak), ended,
	}
}

// roundTo is how exact a wait is shown.
func roundTo(d time.Duration) time.Duration {
	if d >= time.Minute {
		return time.Second
	}
	return 0
}

type policyTestCommand struct {
	File string `arg:"" help:"File of cases." type:"path"`
}

// errCasesFail is the short end of a longer output.
var errCasesFail = errors.New("some cases do not end as they say")

// Run plays the cases of a file under the policy that it names.
func (c *policyTestCommand) Run(to streams) error {
	text, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("the cases can't be read: %w", err)
	}
	suite, err := simulate.ReadSuite(text)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if suite.Policy == "" {
		return fmt.Errorf("%s: name the policy file under \"policy\"", c.File)
	}
	p, err := readPolicy(filepath.Join(filepath.Dir(c.File), suite.Policy), to)
	if err != nil {
		return err
	}
	failed := false
	for i := range suite.Cases {
		one := &suite.Cases[i]
		wrong, err := one.Run(p)
		if err != nil {
			return fmt.Errorf("%s: case %q: %w", c.File, one.Name, err)
		}
		verdict := "ok  "
		if len(wrong) > 0 {
			verdict, failed = "FAIL", true
		}
		if _, err := fmt.Fprintf(to.out, "%s %s\n", verdict, one.Name); err != nil {
			return err
		}
		for _, fault := range wrong {
			_, _ = fmt.Fprintf(to.out, "     %s\n", fault) // the line above was written
		}
	}
	if failed {
		return errCasesFail
	}
	return nil
}
