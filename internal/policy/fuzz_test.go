package policy_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/pacer-notify/pacer/internal/calendar"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/policy"
	"github.com/pacer-notify/pacer/internal/throttle"
)

func FuzzParse(f *testing.F) {
	f.Add([]byte(documentedExample))
	f.Add([]byte(policy.Default().Text))
	faulty, err := filepath.Glob("testdata/faulty/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range faulty {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(hoursText))
	f.Add([]byte(limitsText))
	f.Add([]byte("version: 1\ncategories: {default: &a {limits: [*a]}}\n"))
	f.Add([]byte("version: 1\ncategories: {default: {}}\n" +
		"windows: {night: {closed: [{days: &a [*a], from: \"22:00\", to: \"08:00\"}]}}\n"))
	f.Add([]byte("? [a]\n: b\n<<: *x\n!!int 3: |\n  text\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := policy.Parse("p", data)
		if err != nil {
			checkFaults(t, err, strings.Count(string(data), "\n")+strings.Count(string(data), "\r")+1)
			return
		}
		checkPolicy(t, p)
		again, err := policy.Parse("p", []byte(writePolicy(p)))
		if err != nil {
			t.Fatalf("what was read is refused when written anew: %v\n%s", err, writePolicy(p))
		}
		if diff := cmp.Diff(p, again, ignoreText); diff != "" {
			t.Fatalf("what was read differs when written anew (-first +second):\n%s", diff)
		}
	})
}

// limitsText has limits of every kind: by the calendar, with reserves, and caps of categories and of channels.
const limitsText = `version: 1
time_zone: Asia/Kathmandu
windows:
  lunch: {closed: [{from: "12:00", to: "13:00"}, {days: sat, from: "00:00", to: "24:00"}], dates: [2027-01-01]}
quiet_hours: {window: lunch, spread: 5m, exempt_priority: normal}
caps:
  - name: marketing
    categories: [promo, default]
    limits: [{max: 3, per: week}, {max: 2, per: 1d, reserve: {high: 1}}]
  - {name: push, categories: [promo], channels: ["fcm:shop", apns], limits: [{max: 5, per: 1h}]}
user_cap: {limits: [{max: 60, per: month, reserve: {critical: 9, high: 2}}, {max: 9, per: 1h}]}
categories:
  default: {limits: [{max: 4, per: day}, {max: 2, per: 1m}], min_gap: 3s}
  promo: {algorithm: token_bucket, limits: [{max: 2, per: 1m}], quiet_hours: {then: drop}}
`

// checkFaults wants an error to hold only faults, in order, at places within the file.
func checkFaults(t *testing.T, err error, lines int) {
	t.Helper()
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%v does not join faults", err)
	}
	last := 0
	for _, err := range joined.Unwrap() {
		fault, ok := errors.AsType[*policy.Fault](err)
		if !ok {
			t.Fatalf("%v is no fault", err)
		}
		if fault.Line < max(last, 1) || fault.Line > lines || fault.Column < 1 || fault.Message == "" ||
			fault.File != "p" {
			t.Fatalf("fault out of place: %#v after line %d of %d", fault, last, lines)
		}
		last = fault.Line
	}
}

// checkPolicy checks everything that an accepted policy promises.
func checkPolicy(t *testing.T, p *policy.Policy) {
	t.Helper()
	if _, ok := p.Categories[policy.DefaultCategory]; !ok {
		t.Fatal("no default category")
	}
	for name, c := range p.Categories {
		if name != c.Name || name == "" || len(name) > policy.MaxCategoryNameBytes ||
			strings.ContainsAny(name, ": {}*") {
			t.Fatalf("category %q named %q", name, c.Name)
		}
		if c.MaxDefer <= 0 || c.MaxDefer > policy.MaxWait {
			t.Fatalf("category %s: max_defer %s", name, c.MaxDefer)
		}
		if err := c.Plan.Validate(); err != nil {
			t.Fatalf("category %s has a plan that the limiter refuses: %v", name, err)
		}
		if i := slices.IndexFunc(c.Plan.CategoryRules(),
			func(r throttle.Rule) bool { return r.Kind != throttle.KindLimit }); i >= 0 {
			if r := c.Plan.CategoryRules()[i]; i != len(c.Plan.CategoryRules())-1 || r.Kind != throttle.KindGap ||
				r.Max != 1 {
				t.Fatalf("category %s: rule %d is %s", name, i, r)
			}
		}
		if diff := cmp.Diff(p.UserCap, c.Plan.CapRules(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("category %s has another cap than the policy:\n%s", name, diff)
		}
		checkCaps(t, p, c)
	}
	if slices.ContainsFunc(p.UserCap, func(r throttle.Rule) bool { return r.Kind != throttle.KindCap }) {
		t.Fatalf("user cap %v", p.UserCap)
	}
	if p.BypassPriority > notification.PriorityLow {
		t.Fatalf("bypass priority %d", p.BypassPriority)
	}
	for category := range p.Categories {
		for _, channel := range []notification.Channel{"webhook", "fcm"} {
			checkDelivery(t, p.Delivery(category, channel, notification.DeliverySettings{}))
		}
	}
	if !utf8.ValidString(p.Text) {
		t.Fatal("the text is not UTF-8")
	}
}

// checkCaps wants the plan of a category to hold the rules of just the named caps that count it.
func checkCaps(t *testing.T, p *policy.Policy, c policy.Category) {
	t.Helper()
	named := c.Plan.NamedCaps()
	for _, one := range p.Caps {
		i := slices.IndexFunc(named, func(rules []throttle.Rule) bool { return rules[0].Cap == one.Name })
		if counts := slices.Contains(one.Categories, c.Name); counts != (i >= 0) {
			t.Fatalf("category %s: cap %s counts it: %t, its plan holds %v", c.Name, one.Name, counts, named)
		}
		if i >= 0 {
			if diff := cmp.Diff(one.Rules, named[i]); diff != "" {
				t.Fatalf("category %s has another cap %s than the policy:\n%s", c.Name, one.Name, diff)
			}
			named = slices.Delete(named, i, i+1)
		}
	}
	if len(named) > 0 {
		t.Fatalf("category %s: its plan holds caps that the policy does not: %v", c.Name, named)
	}
}

// checkDelivery checks what holds for every delivery, whatever a file says.
func checkDelivery(t *testing.T, s notification.DeliverySettings) {
	t.Helper()
	r := s.Retry
	steps := len(r.Schedule) > 0
	if r.MaxAttempts < 1 || r.MaxAttempts > policy.MaxRetryAttempts || steps && r.MaxAttempts > len(r.Schedule)+1 ||
		steps == (r.MaxBackoff > 0) || r.MinBackoff > r.MaxBackoff || r.MaxBackoff > policy.MaxWait ||
		r.Longest() < 0 || s.Timeout < policy.MinTimeout || s.Timeout > policy.MaxTimeout || s.Concurrency < 0 {
		t.Fatalf("delivery %+v", s)
	}
}

// ignoreText compares policies by their meaning. No rules and an empty list of rules are the same.
var ignoreText = cmp.Options{cmpopts.IgnoreFields(policy.Policy{}, "Text"), cmpopts.EquateEmpty()}

// writePolicy is the inverse of Parse, written for these tests without its help.
func writePolicy(p *policy.Policy) string {
	var b strings.Builder
	b.WriteString("version: 1\ncategories:\n")
	for name, c := range p.Categories {
		fmt.Fprintf(&b, "  %s:\n    algorithm: %s\n    max_defer: %s\n    bypass: %t\n",
			strconv.Quote(name), c.Plan.Algorithm, c.MaxDefer, c.Bypass)
		if said, ok := p.Deliveries[name]; ok {
			fmt.Fprintf(&b, "    %s\n", strings.Join(writeDelivery(said), "\n    "))
			if said.Final != nil {
				fmt.Fprintf(&b, "    webhook: {final: [%s]}\n", writeFinal(said.Final))
			}
		}
		limits := c.Plan.CategoryRules()
		if n := len(limits); n > 0 && limits[n-1].Kind == throttle.KindGap {
			fmt.Fprintf(&b, "    min_gap: %s\n", limits[n-1].Per)
			limits = limits[:n-1]
		}
		fmt.Fprintf(&b, "    limits: [%s]\n", writeLimits(limits))
		fmt.Fprintf(&b, "    quiet_hours: {then: %s}\n", c.Quiet)
		for i, r := range c.Overflow {
			fmt.Fprintf(&b, "%s    - {when: {%s}, then: %s}\n", strings.Repeat("    overflow:\n", max(0, 1-i)),
				strings.Replace(r.Condition(), " ", ": ", 1), r.Then)
		}
	}
	writeHours(&b, p)
	writeCaps(&b, p.Caps)
	fmt.Fprintf(&b, "user_cap: {limits: [%s]}\n", writeLimits(p.UserCap))
	if p.BypassPriority != 0 {
		fmt.Fprintf(&b, "bypass_priority: %s\n", p.BypassPriority)
	}
	writeDeliveries(&b, p)
	return b.String()
}

// writeHours writes when users are not to be disturbed.
func writeHours(b *strings.Builder, p *policy.Policy) {
	fmt.Fprintf(b, "time_zone: %s\n", strconv.Quote(p.TimeZone))
	if len(p.Windows) > 0 {
		b.WriteString("windows:\n")
	}
	for name, w := range p.Windows {
		fmt.Fprintf(b, "  %s: {", strconv.Quote(name))
		if len(w.Closed) > 0 {
			fmt.Fprintf(b, "closed: [%s], ", writeRanges(w.Closed))
		}
		if len(w.Open) > 0 {
			fmt.Fprintf(b, "open: [%s], ", writeRanges(w.Open))
		}
		dates := make([]string, len(w.Dates))
		for i, date := range w.Dates {
			dates[i] = strconv.Quote(date.String())
		}
		fmt.Fprintf(b, "dates: [%s]}\n", strings.Join(dates, ", "))
	}
	if q := p.QuietHours; q != nil {
		fmt.Fprintf(b, "quiet_hours: {window: %s, spread: %s, required: %t", strconv.Quote(q.Window), q.Spread, q.Required)
		if q.ExemptFrom > 0 {
			fmt.Fprintf(b, ", exempt_priority: %s", q.ExemptFrom)
		}
		b.WriteString("}\n")
	}
}

func writeRanges(ranges []calendar.Range) string {
	all := make([]string, len(ranges))
	for i, r := range ranges {
		days := ""
		for day := time.Sunday; r.Days != 0 && day <= time.Saturday; day++ {
			if r.Days.Has(day) {
				days += ", " + strings.ToLower(day.String()[:3])
			}
		}
		if all[i] = fmt.Sprintf("from: %q, to: %q", r.From, r.To); days != "" {
			all[i] += ", days: [" + days[2:] + "]"
		}
		all[i] = "{" + all[i] + "}"
	}
	return strings.Join(all, ", ")
}

func writeCaps(b *strings.Builder, caps []policy.Cap) {
	if len(caps) > 0 {
		b.WriteString("caps:\n")
	}
	for _, c := range caps {
		fmt.Fprintf(b, "  - {name: %q, categories: [%s], limits: [%s]", c.Name, quoted(c.Categories), writeLimits(c.Rules))
		if len(c.Channels) > 0 {
			fmt.Fprintf(b, ", channels: [%s]", quoted(c.Channels))
		}
		b.WriteString("}\n")
	}
}

func quoted[T ~string](names []T) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = strconv.Quote(string(name))
	}
	return strings.Join(all, ", ")
}

// writeDeliveries writes what a policy says of deliveries at the top, and of channels.
func writeDeliveries(b *strings.Builder, p *policy.Policy) {
	if p.Retry.MaxAttempts > 0 {
		fmt.Fprintf(b, "retry: {%s}\n", writeRetry(p.Retry))
	}
	if len(p.Channels) > 0 {
		b.WriteString("channels:\n")
	}
	for name, said := range p.Channels {
		fmt.Fprintf(b, "  %s: {%s", strconv.Quote(string(name)), strings.Join(writeDelivery(said), ", "))
		if said.Final != nil {
			fmt.Fprintf(b, ", final: [%s]", writeFinal(said.Final))
		}
		b.WriteString("}\n")
	}
}

// writeDelivery writes retry, timeout and concurrency as the keys of a mapping.
func writeDelivery(said policy.Delivery) []string {
	keys := []string{"retry: {" + writeRetry(said.Retry) + "}"}
	if said.Timeout > 0 {
		keys = append(keys, "timeout: "+said.Timeout.String())
	}
	if said.Concurrency > 0 {
		keys = append(keys, "concurrency: "+strconv.Itoa(said.Concurrency))
	}
	return keys
}

func writeRetry(r notification.Retry) string {
	var keys []string
	if r.MaxAttempts > 0 {
		keys = append(keys, "max_attempts: "+strconv.Itoa(r.MaxAttempts))
	}
	if r.MaxBackoff > 0 {
		keys = append(keys, "min_backoff: "+r.MinBackoff.String(), "max_backoff: "+r.MaxBackoff.String())
	}
	if len(r.Schedule) > 0 {
		steps := make([]string, len(r.Schedule))
		for i, step := range r.Schedule {
			steps[i] = step.String()
		}
		keys = append(keys, "schedule: ["+strings.Join(steps, ", ")+"]")
	}
	return strings.Join(keys, ", ")
}

func writeFinal(final []int) string {
	all := make([]string, len(final))
	for i, status := range final {
		if all[i] = strconv.Itoa(status); status < 10 {
			all[i] += "xx"
		}
	}
	return strings.Join(all, ", ")
}

func writeLimits(rules []throttle.Rule) string {
	limits := make([]string, len(rules))
	for i, r := range rules {
		var kept []string
		for p, n := range r.Reserve {
			if n > 0 {
				kept = append(kept, fmt.Sprintf("%s: %d", notification.Priority(p+1), n))
			}
		}
		per := r.Per.String()
		if r.Period > 0 {
			per = r.Period.String()
		}
		limits[i] = fmt.Sprintf("{max: %d, per: %s, reserve: {%s}}", r.Max, per, strings.Join(kept, ", "))
	}
	return strings.Join(limits, ", ")
}

// TestParseReadsWhatWasWritten draws policies, writes them as YAML and reads them back.
func TestParseReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	window := rapid.Custom(func(t *rapid.T) time.Duration {
		low, high := throttle.MinPer/time.Microsecond, throttle.MaxPer/time.Microsecond
		return time.Duration(rapid.Int64Range(int64(low), int64(high)).Draw(t, "window")) * time.Microsecond
	})
	rules := func(kind throttle.Kind, reserves bool) *rapid.Generator[[]throttle.Rule] {
		return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) throttle.Rule {
			rule := throttle.Rule{
				Max: rapid.IntRange(1, throttle.MaxMax).Draw(t, "max"), Per: window.Draw(t, "per"), Kind: kind,
			}
			for i := range rule.Reserve {
				if left := rule.MaxFor(4) - 1; reserves && left > 0 {
					rule.Reserve[i] = rapid.Int32Range(0, int32(left)).Draw(t, "kept")
				}
			}
			return rule
		}), 0, 4, func(r throttle.Rule) time.Duration { return r.Per })
	}
	rapid.Check(t, func(t *rapid.T) {
		userCap := rules(throttle.KindCap, true).Draw(t, "cap")
		want := &policy.Policy{
			TimeZone:       policy.DefaultTimeZone,
			Categories:     map[string]policy.Category{},
			UserCap:        userCap,
			BypassPriority: rapid.SampledFrom([]notification.Priority{0, 1, 2, 3, 4}).Draw(t, "priority"),
		}
		names := rapid.SliceOfN(rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`), 0, 5).Draw(t, "names")
		for _, name := range append(names, policy.DefaultCategory) {
			algorithm := throttle.Algorithm(rapid.IntRange(0, 2).Draw(t, "algorithm"))
			limits := rules(throttle.KindLimit, algorithm.KeepsLog()).Draw(t, "limits")
			if rapid.Bool().Draw(t, "has a gap") {
				limits = append(limits, gap(window.Draw(t, "gap")))
			}
			want.Categories[name] = policy.Category{
				Name:     name,
				MaxDefer: time.Duration(rapid.Int64Range(1, int64(policy.MaxWait)).Draw(t, "max_defer")),
				Bypass:   rapid.Bool().Draw(t, "bypass"),
				Plan: throttle.Plan{
					Algorithm: algorithm,
					Rules:     append(limits, userCap...),
				},
			}
		}
		drawDeliveries(t, want)
		got, err := policy.Parse("p", []byte(writePolicy(want)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, ignoreText); diff != "" {
			t.Fatalf("policy differs (-want +got):\n%s", diff)
		}
	})
}
