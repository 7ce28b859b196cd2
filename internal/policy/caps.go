package policy

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/throttle"
)

// Cap is a cap over some categories and channels of a user.
type Cap struct {
	// Name is 1 to 64 of A-Z a-z 0-9 . _ -
	Name string
	// Categories are those that it counts, Channels those of their notifications; no channels means all.
	Categories []string
	Channels   []notification.Channel
	// Rules are its limits.
	Rules []throttle.Rule
}

// MaxCaps is how many caps a policy may have.
const MaxCaps = 64

// placedCap is a cap with its place in the file, and those of the categories that it names.
type placedCap struct {
	Cap

	path       string
	node       ast.Node
	categories []ast.Node
}

// readCaps reads the named caps.
func (d *document) readCaps(e entry) {
	list, ok := e.value.(*ast.SequenceNode)
	if !ok {
		d.add(e.value, e.name, "must be a list of caps such as "+
			"[{name: marketing, categories: [promo, news], limits: [{max: 3, per: 7d}]}]")
		return
	}
	if len(list.Values) > MaxCaps {
		d.add(e.value, e.name, "has %d caps, more than the %d that a policy may have", len(list.Values), MaxCaps)
		return
	}
	first := map[string]string{} // The place of each name.
	for i, value := range list.Values {
		path := e.name + "[" + strconv.Itoa(i) + "]"
		if value = d.follow(path, value); value == nil {
			continue
		}
		c, name := d.readCap(path, value)
		if other, taken := first[c.Name]; taken && c.Name != "" {
			d.add(name, join(path, "name"), "is already that of %s", other)
			continue
		}
		first[c.Name] = path
		d.named = append(d.named, c)
	}
}

// readCap reads one cap, and returns the node of its name too.
func (d *document) readCap(path string, node ast.Node) (c placedCap, name ast.Node) {
	c.path, c.node, name = path, node, node
	fields, ok := d.fields(path, node, "name", "categories", "channels", "limits")
	if !ok {
		return c, name
	}
	if f, ok := fields["name"]; ok {
		name = f.value
		if c.Name, _ = scalar(f.value); !isCategoryName(c.Name) {
			d.add(f.value, join(path, "name"), "must be 1 to %d of A-Z a-z 0-9 . _ -", MaxCategoryNameBytes)
		}
	} else {
		d.add(node, path, "needs a name, which appears in its reason: cap:NAME")
	}
	if f, ok := fields["categories"]; ok {
		c.Categories = readList(d, join(path, "categories"), f.value, "categories such as [promo, news]",
			func(_ string, node ast.Node) string {
				category, _ := scalar(node)
				c.categories = append(c.categories, node)
				return category
			})
	}
	if len(c.Categories) == 0 {
		d.add(cmp.Or(fields["categories"].key, node), path,
			"needs categories: those it counts; for a cap over all categories use user_cap")
	}
	if f, ok := fields["channels"]; ok {
		c.Channels = readList(d, join(path, "channels"), f.value, "channels such as [fcm, apns]", d.readChannel)
		if len(c.Channels) == 0 {
			d.add(f.key, join(path, "channels"), "names no channel; leave it out to count all")
		}
	}
	c.Rules = d.readCapLimits(path, node, fields, c)
	return c, name
}

// isCapped reports whether some named cap counts a category.
func (d *document) isCapped(category string) bool {
	return slices.ContainsFunc(d.named, func(c placedCap) bool { return slices.Contains(c.Categories, category) })
}

// readChannel reads the name of a channel, or of a kind of channel.
func (d *document) readChannel(path string, node ast.Node) notification.Channel {
	name, _ := scalar(node)
	switch channel := notification.Channel(name); {
	case !isCategoryName(strings.Replace(name, ":", "-", 1)):
		d.add(node, path, "must be the name of a channel, such as fcm or fcm:shop")
	case len(d.channels) > 0 && !slices.Contains(d.channels, string(channel.Kind())):
		d.add(node, path, "unknown channel %s%s; known here: %s", nearest.Quote(name), nearest.Hint(name, d.channels),
			strings.Join(d.channels, ", "))
	}
	return notification.Channel(name)
}

func (d *document) readCapLimits(path string, node ast.Node, fields map[string]entry, c placedCap) []throttle.Rule {
	f, ok := fields["limits"]
	if !ok {
		d.add(node, path, "needs limits, a list such as [{max: 3, per: 7d}]")
		return nil
	}
	rules := d.readLimits(join(path, "limits"), f.value, throttle.KindNamed)
	if len(rules) == 0 && len(d.faults) == 0 {
		d.add(f.key, join(path, "limits"), "has no limit, so it caps nothing; add one such as {max: 3, per: 7d}")
	}
	var channels []string
	for _, channel := range c.Channels {
		channels = append(channels, string(channel))
	}
	slices.Sort(channels)
	for i := range rules {
		rules[i].Cap, rules[i].Channels = c.Name, strings.Join(slices.Compact(channels), " ")
	}
	d.written[capNamed(c.Name)] = written{limits: limitsWritten(rules)}
	d.warnPointless(throttle.Rolling, rules, nil)
	return merged(rules)
}

// placeCaps puts each cap into the plans of its categories.
func (d *document) placeCaps(p *Policy) {
	for _, added := range d.named {
		p.Caps = append(p.Caps, added.Cap)
		for i, name := range added.Categories {
			c, known := p.Categories[name]
			switch n := len(c.Plan.NamedCaps()); {
			case !known:
				names := slices.Sorted(maps.Keys(p.Categories))
				d.add(added.categories[i], join(added.path, "categories")+"["+strconv.Itoa(i)+"]",
					"no category is named %s; the policy has %s%s", nearest.Quote(name), nearest.List(names),
					nearest.Hint(name, names))
				continue
			case slices.Contains(added.Categories[:i], name):
				continue
			case n == throttle.MaxNamedCaps:
				d.add(added.node, added.path, "is one cap too many for the category %s, which may be in %d", name, n)
				continue
			}
			c.Plan.Rules = slices.Concat(c.Plan.Rules, added.Rules)
			p.Categories[name] = c
		}
	}
}
