package gate

import (
	"hash/maphash"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
)

const (
	// lately is how far back the evidence goes: this long at least, and twice as long at most.
	lately = 10 * time.Minute
	// fewTargets is how many targets a provider has to refuse before the settings are suspected, when it accepts
	// nothing. One user can register some targets of another app.
	fewTargets = 3
	// manyTargets is how many it has to refuse, and more often than it accepts, before none is deactivated.
	manyTargets = 10
)

// verdict is whom a refusal concerns that may mean the target or the settings.
type verdict int

const (
	// theTarget: others are accepted.
	theTarget verdict = iota
	// unsure: nobody knows yet.
	unsure
	// theSettings: nothing is accepted, for no target.
	theSettings
)

// evidence is what a host accepted and refused lately. A refusal that may concern the target or the credential is told
// apart by it.
type evidence struct {
	ever        bool // it accepted something, ever
	now, before tally
	turned      time.Time // when now began
}

// tally counts what was accepted, and what was refused for how many targets.
type tally struct {
	accepted, refused int
	targets           map[uint64]struct{} // at most manyTargets
}

// seed makes the hashes of targets.
var seed = maphash.MakeSeed()

// turn begins a new tally when it is time.
func (e *evidence) turn(now time.Time) {
	switch age := now.Sub(e.turned); {
	case age >= 2*lately:
		e.before, e.now, e.turned = tally{}, tally{}, now
	case age >= lately:
		e.before, e.now, e.turned = e.now, tally{}, now
	}
}

// accept notes a delivery.
func (e *evidence) accept(now time.Time) {
	e.turn(now)
	e.ever = true
	e.now.accepted++
}

// refuse notes a refusal, and tells whom it concerns.
func (e *evidence) refuse(now time.Time, target string, class push.Class) verdict {
	e.turn(now)
	e.now.refused++
	if len(e.now.targets) < manyTargets {
		if e.now.targets == nil {
			e.now.targets = map[uint64]struct{}{}
		}
		e.now.targets[maphash.String(seed, target)] = struct{}{}
	}
	accepted, refused := e.before.accepted+e.now.accepted, e.before.refused+e.now.refused
	switch {
	case accepted > 0 && refused > accepted && e.targets() >= manyTargets:
		return unsure
	case accepted > 0:
		return theTarget
	case e.targets() >= fewTargets || class == push.CredentialsRefused && !e.ever:
		return theSettings
	}
	return unsure
}

// targets is how many targets were refused, as far as it matters.
func (e *evidence) targets() int {
	n := len(e.now.targets)
	for target := range e.before.targets {
		if _, both := e.now.targets[target]; !both {
			n++
		}
	}
	return n
}
