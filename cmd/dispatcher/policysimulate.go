package main

import (
	"bufio"
	"cmp"
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
	"strings"
	"time"

	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/settings"
	"github.com/pacer-notify/pacer/internal/simulate"
	"github.com/pacer-notify/pacer/internal/store/postgres/connect"
	"github.com/pacer-notify/pacer/internal/store/postgres/limited"
	"github.com/pacer-notify/pacer/internal/store/postgres/stream"
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
		return errors.New("--since needs Postgres (--database-url, DATABASE_URL): only there pacer keeps what it accepted for more than a day")
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
		Channel: string(a.Channel), SendAt: a.SendAt, ExpiresAt: a.ExpiresAt, CollapseKey: a.CollapseKey,
		GroupKey: a.GroupKey, Zone: a.Zone,
	}
	if a.Failed {
		arrival.Outcome = simulate.Failed
	}
	return arrival
}

type policyRecordCommand struct{ recorded }

// Run prints what was accepted as arrivals, a line each. Users and keys are told apart, and not named.
func (c *policyRecordCommand) Run(ctx context.Context, to streams) error {
	if c.Since == "" {
		c.Since = "7d"
	}
	key := []byte(rand.Text())
	unnamed := func(name string) string {
		hash := hmac.New(sha256.New, key)
		_, _ = hash.Write([]byte(name)) // a hash takes everything
		return hex.EncodeToString(hash.Sum(nil)[:8])
	}
	buffered := bufio.NewWriter(to.out)
	out := json.NewEncoder(buffered)
	err := c.each(ctx, func(a *stream.Arrival) error {
		a.UserID = "u" + unnamed(a.UserID)
		if a.CollapseKey != "" {
			a.CollapseKey = "k" + unnamed(a.CollapseKey)
		}
		if a.GroupKey != "" {
			a.GroupKey = "g" + unnamed(a.GroupKey)
		}
		return out.Encode(arrivalOf(a))
	})
	return cmp.Or(err, buffered.Flush())
}

type policySimulateCommand struct {
	recorded
	File    string   `arg:"" help:"Policy file to play the arrivals under." type:"path"`
	Against string   `name:"against" env:"-" placeholder:"FILE" type:"path" help:"Policy file to compare with."`
	From    string   `name:"from" env:"-" placeholder:"FILE" help:"Recorded arrivals, one JSON object a line, as dispatcher policy record prints them; - for the standard input."`
	Sort    bool     `name:"sort" env:"-" help:"Sort the arrivals by time first: all of them are held in memory."`
	JSON    bool     `name:"json" env:"-" xor:"form" help:"Print JSON, for programs."`
	HTML    string   `name:"html" env:"-" xor:"form" placeholder:"FILE" type:"path" help:"Write the table as a page into this file, to attach to a review."`
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
	if err := c.show(to.out, report); err != nil {
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
		return errors.New("say where the arrivals are: either --from FILE, or --since DURATION for what Postgres has accepted")
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
	file := suite.Policy
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(c.File), file)
	}
	p, err := readPolicy(file, to)
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
		verdict := "ok   " + one.Name
		if len(wrong) > 0 {
			verdict, failed = "FAIL "+one.Name+"\n     "+strings.Join(wrong, "\n     "), true
		}
		if _, err := fmt.Fprintln(to.out, verdict); err != nil {
			return err
		}
	}
	if failed {
		return errCasesFail
	}
	return nil
}
