//go:build faults

package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"

	"github.com/pacer-notify/pacer/test/linktest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// link is a piece of network that a test can make bad: a proxy of Toxiproxy's.
type link struct {
	d     *deployment
	proxy *toxiproxy.Proxy
	names []string
	// each tells that each delivery has a connection of its own.
	each bool
}

// link makes one that leads to an address.
func (d *deployment) link(upstream string) *link { return d.linkAt(linktest.AnyPort, upstream) }

// linkAt makes one that listens on an address.
func (d *deployment) linkAt(listen, upstream string) *link {
	return &link{d: d, proxy: linktest.Start(d.t, listen, upstream)}
}

func (l *link) addr() string { return l.proxy.Listen }

// lead leads to another server from now on, and ends every connection.
func (l *link) lead(upstream string) {
	listen := l.proxy.Listen
	l.proxy.Stop()
	l.proxy.Upstream, l.proxy.Listen = upstream, listen
	if err := l.proxy.Start(); err != nil {
		l.d.fail("lead to %s: %v", upstream, err)
	}
}

// toxic is one way in which a network is bad.
type toxic struct {
	name, kind, says string
	attributes       func(users int) map[string]any
	// breaks tells that it breaks connections; else it only slows them down.
	breaks bool
}

// toxics are all of them.
var toxics = []toxic{
	{
		name: "Latency", kind: "latency", says: "latency of 100 ± 50 ms each way",
		attributes: fixed(map[string]any{"latency": 100, "jitter": 50}),
	},
	{
		name: "Bandwidth", kind: "bandwidth", says: "a bandwidth of 1 KB/s per user each way",
		attributes: func(users int) map[string]any { return map[string]any{"rate": users} },
	},
	{
		name: "Slicing", kind: "slicer", says: "small pieces with pauses between them",
		attributes: func(users int) map[string]any {
			// A byte a user, at least 40: a pause takes a millisecond or so, however short it is meant to be.
			size := max(users, 40)
			return map[string]any{"average_size": size, "size_variation": size * 2 / 5, "delay": 350}
		},
	},
	{
		name: "HalfOpen", kind: "timeout", says: "half-open connections: what is sent vanishes",
		attributes: fixed(map[string]any{"timeout": 0}), breaks: true,
	},
	{
		name: "Reset", kind: "reset_peer", says: "resets after 50 ms", attributes: fixed(map[string]any{"timeout": 50}),
		breaks: true,
	},
	{
		name: "CutShort", kind: "limit_data", says: "connections cut in the middle of a response",
		attributes: fixed(map[string]any{"bytes": 2000}), breaks: true,
	},
}

// fixed are attributes that do not depend on the load.
func fixed(attributes map[string]any) func(int) map[string]any {
	return func(int) map[string]any { return attributes }
}

// turn makes the link bad, upstream and downstream unless only one is named.
func (l *link) turn(x toxic, streams ...string) {
	if len(streams) == 0 {
		streams = []string{"upstream", "downstream"}
	}
	users := scaled(l.d.scenario.users)
	if l.each {
		users = 20
	}
	attributes := x.attributes(users)
	if x.kind == "limit_data" && len(streams) == 1 {
		attributes = map[string]any{"bytes": 20} // a response alone is short
	}
	for _, stream := range streams {
		name := x.kind + "-" + stream
		text, err := json.Marshal(map[string]any{
			"name": name, "type": x.kind, "stream": stream, "toxicity": 1,
			"attributes": attributes,
		})
		if err != nil {
			l.d.fail("%v", err)
		}
		if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(string(text))); err != nil {
			l.d.fail("make the network bad (%s): %v", x.kind, err)
		}
		l.names = append(l.names, name)
	}
}

// repair makes the link good again.
func (l *link) repair() {
	for _, name := range l.names {
		if err := l.proxy.Toxics.RemoveToxic(context.Background(), name); err != nil {
			l.d.fail("make the network good (%s): %v", name, err)
		}
	}
	l.names = nil
}

// pair is two of the programs, and the network between them.
type pair struct {
	name, says string
	store      recordKind
	// prepare puts a link between them before the processes start, links gives those that there are when the fault
	// comes.
	prepare func(*deployment)
	links   func(*deployment) []*link
	// slowed and broken are the protections against a slow network and one that breaks connections.
	slowed, broken protection
	slow           time.Duration
	// body is the size of a notification's text.
	body int
	// repeats tells that what is lost on the way is sent again as another attempt.
	repeats bool
	// repliesOnly breaks what comes back: then nobody knows what became of what was sent.
	repliesOnly bool
}

// pairs are those that talk to one another.
func pairs() []pair {
	half := 500 * time.Millisecond
	patient := func(with string) protection {
		return protection{name: "time-outs with room", mutations: "impatient-" + with, late: true}
	}
	kept := func(name string) func(*deployment) []*link {
		return func(d *deployment) []*link { return []*link{d.links[name]} }
	}
	return []pair{
		{
			name: "Redis", says: "workers – Redis", store: inRedis, slow: half, slowed: patient("redis"),
			broken: settling,
			links:  kept("Redis"), prepare: func(d *deployment) {
				d.redis = redistest.Start(d.t)
				d.links["Redis"] = d.link(d.redis.Addr())
				d.redisURL = "redis://" + d.links["Redis"].addr() + "/0"
			},
		},
		{
			name: "Postgres", says: "workers – Postgres", slow: half, slowed: patient("postgres"), broken: settling,
			links: kept("Postgres"), prepare: func(d *deployment) {
				d.postgres = postgrestest.Start(d.t)
				d.links["Postgres"] = d.link(d.postgres.Addr())
				d.databaseURL = strings.Replace(d.postgres.URL(), d.postgres.Addr(), d.links["Postgres"].addr(), 1)
			},
		},
		{
			name: "API", says: "producers – API", slowed: patient("api"), body: 1000,
			broken:      protection{name: "ids of the producer's", anonymous: true},
			repliesOnly: true,
			links: func(d *deployment) []*link {
				var all []*link
				for _, w := range d.workers {
					if d.links[w.api] == nil {
						d.links[w.api] = d.link(w.api)
						w.front = d.links[w.api].addr()
					}
					all = append(all, d.links[w.api])
				}
				return all
			},
		},
		{
			name: "Provider", says: "workers – provider", slowed: patient("targets"), broken: retrying, body: 6000,
			repeats: true,
			links:   kept("Provider"), prepare: behindLink,
		},
	}
}

// networkScenarios are every toxic between every pair.
func networkScenarios() []*scenario {
	var all []*scenario
	for _, p := range pairs() {
		for _, x := range toxics {
			all = append(all, networkScenario(p, x))
		}
	}
	return all
}

func networkScenario(p pair, x toxic) *scenario {
	lasts := 3 * time.Second
	if p.name == "API" {
		lasts = 5 * time.Second // several requests of a producer's
	}
	s := &scenario{
		name: "Network" + p.name + x.name, fault: fmt.Sprintf("%s: %s", p.says, x.says), store: p.store, slow: p.slow,
		body:   p.body,
		goesOn: !x.breaks, acceptsOn: !x.breaks && p.name == "API", without: p.slowed,
		perAttempt: p.repeats && x.breaks,
		soak:       !p.repeats || !x.breaks, prepare: p.prepare,
		inject: func(d *deployment) {
			links := p.links(d)
			for _, l := range links {
				if p.repliesOnly && x.breaks {
					l.turn(x, "downstream")
				} else {
					l.turn(x)
				}
			}
			d.last(lasts)
			for _, l := range links {
				l.repair()
			}
		},
	}
	if x.breaks {
		s.without = p.broken
	} else if p.repeats {
		s.goesOn = false // what arrives goes on; whether its response does is told by what comes twice
	}
	return s
}
