//go:build faults

package faults_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// recordKind is where a deployment keeps its store.
type recordKind int

const (
	inPostgres recordKind = iota
	inRedis
)

// scenario is a fault that a deployment of two processes meets in mid-run, and what must hold all the same.
type scenario struct {
	// name is the test's. fault is what the table says of it, and holds what must hold besides nothing lost, doubled,
	// violated.
	name, fault, holds string
	store              recordKind
	// users and each are the size of the load; a third of it is accepted during and after the fault. Default to 200 and
	// 40.
	users, each int
	// body is the size of each notification's text.
	body int
	// slow is how long the receiver takes to respond.
	slow time.Duration
	// rewrites are faults that the program makes itself, whether or not a protection is switched off.
	rewrites []rewrite

	// prepare sets up servers in place of the usual ones, between comes after them and before the processes, ready
	// after those.
	prepare, between, ready func(*deployment)
	// inject is the fault. It returns when it is over.
	inject func(*deployment)
	// soak tells that the fault may come at any time in a soak, whose servers are the usual ones behind links.
	soak bool
	// goesOn tells that deliveries go on while the fault lasts.
	goesOn bool
	// acceptsOn tells that notifications are accepted while the fault lasts.
	acceptsOn bool
	// check is what else must hold in the end.
	check func(*deployment, verdict)

	// doubled allows for those in flight when the fault came.
	doubled func(*deployment) int
	// perAttempt counts as doubled what came twice with the same attempt: a response that got lost makes another
	// attempt.
	perAttempt bool
	// byArrival checks the limits by the receiver's clock, where the clock of Redis is what the fault is about;
	// tolerance is what the way there may differ.
	byArrival bool
	tolerance time.Duration
	// recovery bounds how long after the fault deliveries go on. Defaults to 30 s: what a lease and a sweep take, and
	// as much again.
	recovery time.Duration

	// without is the protection, and how it is switched off.
	without protection
}

// protection is what a scenario is about. Without it the scenario must fail.
type protection struct {
	// name is what the table says.
	name string
	// mutations switch it off in the program.
	mutations string
	// rewrites switch it off where the program has no switch: what a source file says, and what it is to say instead.
	rewrites []rewrite
	// late tells that a deployment can't begin without it: the processes are replaced by such that lack it before the
	// fault.
	late bool
	// prepare sets up a deployment that lacks it. It comes before the scenario's own.
	prepare func(*deployment)
	// anonymous has producers leave out the ids by which a repeated request is known.
	anonymous bool
}

// row is what a scenario came to.
type row struct {
	*scenario
	verdict
	allowed int
	notes   []string
	faults  []string
}

// TestFaults runs all scenarios, one after the other, and prints a table. FAULTS_ONLY is a regular expression of names.
func TestFaults(t *testing.T) {
	only := only("FAULTS_ONLY")
	var rows []row
	for _, s := range allScenarios() {
		if !only.MatchString(s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) { rows = append(rows, run(t, s)) })
	}
	report(t, rows)
}

// allScenarios are those of the table.
func allScenarios() []*scenario {
	return slices.Concat(
		redisScenarios(), failoverScenarios(), postgresScenarios(), lockScenarios(), diskScenarios(),
		networkScenarios(), providerScenarios(), dnsScenarios(),
		processScenarios(), clockScenarios(), upgradeScenarios(), wideScenarios(),
	)
}

// only is the regular expression in an environment variable; without one everything fits.
func only(variable string) *regexp.Regexp { return regexp.MustCompile(os.Getenv(variable)) }

// run runs one scenario and checks its promises.
func run(t *testing.T, s *scenario) row {
	t.Helper()
	if s.users == 0 {
		s.users = 200
	}
	if s.each == 0 {
		s.each = 40
	}
	if s.recovery == 0 {
		s.recovery = 30 * time.Second
	}
	var d *deployment
	result, injected := row{scenario: s}, false
	func() {
		defer func() {
			if p := recover(); p != nil {
				end, ok := p.(broken)
				if !ok {
					panic(p)
				}
				result.faults = append(result.faults, end.why)
			}
		}()
		d = deploy(t, s)
		result.verdict = d.play(&injected)
		d.checkServers()
		result.allowed = d.allowed()
	}()
	if d != nil {
		result.faults = append(result.faults, d.faults...)
		result.notes = d.notes
		if len(result.faults) == 0 || result.verdict.accepted > 0 {
			result.faults = append(result.faults, result.verdict.against(s, result.allowed)...)
		}
	}
	conclude(t, &result, injected)
	return result
}

// conclude fails the test: in a green run when something is wrong, in a red one when nothing is.
func conclude(t *testing.T, result *row, injected bool) {
	t.Helper()
	told := result.verdict.String()
	if len(result.notes) > 0 {
		told += "; " + strings.Join(result.notes, ", ")
	}
	switch {
	case !red() && len(result.faults) > 0:
		t.Errorf("%s\n%s", told, strings.Join(result.faults, "\n"))
	case !red():
		t.Log(told)
	case !injected:
		t.Errorf("the run without %s came to its end before the fault: %s", result.without.name,
			strings.Join(result.faults, "; "))
	case len(result.faults) == 0:
		t.Errorf("%s\nwithout %s the scenario must fail", told, result.without.name)
	default:
		t.Logf("without %s: %s\n%s", result.without.name, told, strings.Join(result.faults, "\n"))
	}
}

// against is what of a verdict is not as it must be.
func (v verdict) against(s *scenario, allowed int) []string {
	var faults []string
	note := func(wrong bool, text string) {
		if wrong {
			faults = append(faults, text)
		}
	}
	note(v.lost > 0, "something was lost")
	note(v.violations > 0, "limits were broken")
	note(v.doubled > allowed, "more came twice than may")
	note(v.recovery > s.recovery, "deliveries did not go on")
	return faults
}

// allowed is how many may come twice.
func (d *deployment) allowed() int {
	if d.scenario.doubled == nil {
		return 0
	}
	return d.scenario.doubled(d)
}

// ideal is how long the limits need for the load.
func (s *scenario) ideal() time.Duration {
	return time.Duration(float64(s.each) / perSecond * float64(time.Second))
}

// patience bounds the wait for the end: much more than what the limits need, and less where something is to be lost.
func (s *scenario) patience() time.Duration {
	if red() {
		return s.ideal() + 20*time.Second + 3*s.slow
	}
	return 4*s.ideal() + time.Minute
}

// play runs load and fault and waits until all has ended.
func (d *deployment) play(injected *bool) verdict {
	s := d.scenario
	users := scaled(s.users)
	before := s.each * 2 / 3
	d.load(users, before)
	d.await("the run is under way", time.Minute, func() bool { return d.receiver.count() >= users*5 })
	if red() && s.without.late {
		d.env = append(d.env, "FAULTS_MUTATIONS="+s.without.mutations)
		replaceBoth(d)
		d.last(4 * time.Second) // see mutation.patientAtStart
	}
	accepted := d.produce(users, s.each-before)
	*injected = true
	start, atStart, acceptedAtStart := time.Now(), d.receiver.count(), d.acceptedSoFar()
	s.inject(d)
	over, atEnd := time.Now(), d.receiver.count()
	if lasted := over.Sub(start); s.goesOn && float64(atEnd-atStart) < lasted.Seconds()*perSecond*float64(users)/20 {
		d.blame("deliveries stood still during the fault: %d in %.1f s", atEnd-atStart, lasted.Seconds())
	}
	if s.acceptsOn && d.acceptedSoFar() < acceptedAtStart+2*users {
		d.blame("accepting stood still during the fault: %d", d.acceptedSoFar()-acceptedAtStart)
	}
	goesOn := eventually(s.recovery, func() bool { return d.receiver.count() >= min(atEnd+users, users*s.each) })
	recovery := time.Since(over)
	d.t.Logf("the fault began at %s and was over at %s; %s later deliveries went on",
		start.UTC().Format("15:04:05.000"), over.UTC().Format("15:04:05.000"), recovery)
	if !goesOn {
		recovery = s.recovery + time.Second
	}
	accepted()
	if !eventually(s.patience(), func() bool { return d.open() == 0 }) {
		d.blame("%d never ended", d.open())
	}
	ended := time.Since(over)
	if s.check != nil {
		s.check(d, d.count())
	}
	v := d.count()
	v.recovery, v.ended = recovery, ended
	return v
}

// inFlight counts those that are on their way; the fault that follows may double them.
func inFlight(d *deployment) int { return d.inFlight }
