package policy

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Parse reads and checks a policy file. Its faults call it name. The error joins all of them, each a [*Fault], in the
// order of the file. The file may name any of the channels, or any at all when none is given.
func Parse(name string, data []byte, channels ...string) (*Policy, error) {
	p, _, err := parse(name, data, channels)
	return p, err
}

// Warnings lists the places of a policy's text that may say what they say, and hardly mean it, in the order of the
// text. They call it name.
func Warnings(name string, p *Policy) []*Fault {
	_, d, _ := parse(name, []byte(p.Text), nil) // it was parsed before
	return d.warnings
}

func parse(name string, data []byte, channels []string) (*Policy, *document, error) {
	d := &document{file: name, channels: channels, anchors: map[string]ast.Node{}, written: map[string]written{}}
	p := &Policy{Text: string(data), TimeZone: DefaultTimeZone}
	if root := d.open(p.Text); root != nil {
		d.readPolicy(p, root)
	}
	if len(d.faults) > 0 {
		return nil, nil, joinFaults(d.faults)
	}
	sortFaults(d.warnings)
	return p, d, nil
}

func (d *document) readPolicy(p *Policy, root ast.Node) {
	root = d.follow("", root)
	if root == nil {
		return
	}
	fields, ok := d.fields("", root, "version", "categories", "user_cap", "bypass_priority", "retry", "channels",
		"time_zone", "windows", "quiet_hours", "caps")
	if !ok {
		return
	}
	if version, ok := fields["version"]; !ok {
		d.add(root, "version", "is missing; begin the file with version: 1")
	} else if text, _ := scalar(version.value); text != "1" {
		d.add(version.value, "version", "must be 1, the only version so far, is %s", nearest.Quote(text))
	}
	if e, ok := fields["user_cap"]; ok {
		p.UserCap = d.readUserCap(e)
		d.written[userCap] = written{limits: limitsWritten(d.caps)}
	}
	if e, ok := fields["caps"]; ok {
		d.readCaps(e)
	}
	_, d.quiet = fields["quiet_hours"]
	if e, ok := fields["categories"]; ok {
		d.readCategories(p, e)
	} else {
		d.add(root, "categories", "is missing; a policy needs at least the category %s", DefaultCategory)
	}
	if e, ok := fields["bypass_priority"]; ok {
		p.BypassPriority = d.readPriority(e)
	}
	if e, ok := fields["retry"]; ok {
		said := notification.DeliverySettings{Retry: deliveryReader{d}.readRetry(e.name, e)}
		p.Retry = said.Over(notification.DefaultDelivery()).Retry
	}
	if e, ok := fields["channels"]; ok {
		p.Channels = deliveryReader{d}.readChannels(e)
	}
	d.readHours(p, fields)
	d.placeCaps(p)
}

// readHours reads what depends on the clock on the user's wall.
func (d *document) readHours(p *Policy, fields map[string]entry) {
	if e, ok := fields["time_zone"]; ok {
		p.TimeZone = hoursReader{d}.readTimeZone(e)
	}
	if e, ok := fields["windows"]; ok {
		p.Windows = hoursReader{d}.readWindows(e)
	}
	if e, ok := fields["quiet_hours"]; ok {
		p.QuietHours = hoursReader{d}.readQuietHours(e, p.Windows)
		if len(d.faults) == 0 {
			d.checkPatience(p, e, fields["categories"])
			digestReader{d}.warnNightly(p, fields["categories"])
		}
	}
}

func (d *document) readUserCap(e entry) []throttle.Rule {
	fields, ok := d.fields(e.name, e.value, "limits")
	if !ok {
		return nil
	}
	limits, ok := fields["limits"]
	if !ok {
		d.add(e.key, e.name, "needs limits, a list such as [{max: 60, per: 1h}]")
		return nil
	}
	d.caps = d.readLimits("user_cap.limits", limits.value, throttle.KindCap)
	d.warnPointless(throttle.Rolling, d.caps, nil)
	return merged(d.caps)
}

func (d *document) readCategories(p *Policy, e entry) {
	entries, ok := d.entries(e.name, e.value)
	if !ok {
		return
	}
	p.Categories = make(map[string]Category, len(entries))
	for _, e := range entries {
		path := join("categories", e.name)
		if !isCategoryName(e.name) {
			d.add(e.key, path, "a category's name must be 1 to %d of A-Z a-z 0-9 . _ -", MaxCategoryNameBytes)
		}
		p.Categories[e.name] = d.readCategory(p, path, e)
	}
	if _, ok := p.Categories[DefaultCategory]; !ok {
		d.add(e.key, join("categories", DefaultCategory), "is missing; it is for notifications that name no category")
	}
}

// isCategoryName reports whether a category may have a name.
func isCategoryName(name string) bool {
	if name == "" || len(name) > MaxCategoryNameBytes {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	})
}

func (d *document) readCategory(p *Policy, path string, e entry) Category {
	c := Category{Name: e.name, Plan: throttle.Plan{Rules: p.UserCap}}
	if _, empty := e.value.(*ast.NullNode); empty {
		d.add(e.key, path, "has no settings; write {} for a category without limits")
		return c
	}
	fields, _ := d.fields(path, e.value,
		slices.Concat([]string{
			"algorithm", "limits", "min_gap", "max_defer", "bypass", "quiet_hours", "digest", "overflow",
		}, deliveryKeys, []string{"webhook"})...)
	if f, ok := fields["algorithm"]; ok {
		c.Plan.Algorithm = d.readAlgorithm(path, f)
	}
	var rules []placed
	if f, ok := fields["limits"]; ok {
		rules = d.readLimits(join(path, "limits"), f.value, throttle.KindLimit)
	}
	d.checkAlgorithm(c.Plan.Algorithm, rules)
	written := rules
	rules, c.Plan.Shadow = shadows(rules)
	limits := merged(rules)
	if f, ok := fields["min_gap"]; ok {
		gap := throttle.Rule{Max: 1, Per: d.window(join(path, "min_gap"), f.value), Kind: throttle.KindGap}
		rules = append(rules, placed{Rule: gap, path: join(path, "min_gap"), node: f.value})
		limits = append(limits, gap)
	}
	c.Plan.Rules = slices.Concat(limits, p.UserCap)
	if f, ok := fields["bypass"]; ok {
		c.Bypass = d.flag(join(path, "bypass"), f.value)
	}
	deliveryReader{d}.readDeliveryOf(p, path, e.name, fields)
	if f, ok := fields["quiet_hours"]; ok {
		c.Quiet = hoursReader{d}.readThen(path, f)
	}
	c.MaxDefer = d.defaultMaxDefer(c)
	if f, ok := fields["max_defer"]; ok {
		c.MaxDefer = d.duration(join(path, "max_defer"), f.value, 1, MaxWait)
	}
	if f, ok := fields["digest"]; ok {
		if c.Digest = (digestReader{d}).readDigest(path, f); c.Digest != nil {
			digestReader{d}.checkDigest(path, f, c)
		}
	}
	if f, ok := fields["overflow"]; ok {
		c.Overflow = ladderReader{d, join(path, "overflow"), c}.read(f)
	}
	d.written[e.name] = writtenOf(c, fields, written)
	if len(d.faults) == 0 { // else the values may stand for what was refused
		d.warnCategory(path, e, c, rules, d.caps)
	}
	return c
}

func (d *document) readAlgorithm(path string, e entry) throttle.Algorithm {
	text, _ := scalar(e.value)
	a, ok := throttle.ParseAlgorithm(text)
	if !ok {
		d.add(e.value, join(path, "algorithm"), "must be %s", algorithmNames())
	}
	return a
}

// algorithmNames lists the names of all algorithms, for people.
func algorithmNames() string {
	var names []string
	for _, a := range throttle.Algorithms() {
		names = append(names, a.String())
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (d *document) readPriority(e entry) notification.Priority {
	text, ok := scalar(e.value)
	if ok && text == "" {
		return 0
	}
	priority, known := notification.ParsePriority(text)
	if !ok || !known {
		written := e.value.String()
		if ok {
			written = nearest.Quote(text) + nearest.Hint(text, []string{"critical", "high", "normal", "low"})
		}
		d.add(e.value, e.name, `must be critical, high, normal, low or "" for none, is %s`, written)
	}
	return priority
}
