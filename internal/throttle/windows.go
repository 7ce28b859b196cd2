package throttle

import "slices"

// Windows is what was admitted for one user, for somebody who plays what is to come: each call says the moment. For the
// same calls at the same moments it decides as the Lua does, see [Memory].
type Windows struct {
	user  string
	cells []*cell // few
}

// NewWindows makes the empty Windows of a user.
func NewWindows(user string) *Windows { return &Windows{user: user} }

// Idle reports whether nothing counts any more at a moment.
func (w *Windows) Idle(now Micros) bool {
	return !slices.ContainsFunc(w.cells, func(c *cell) bool { return !c.expired(now) })
}

// Clear forgets what was admitted in a category, and under the caps that a plan names.
func (w *Windows) Clear(category string, plan Plan) {
	key := Key{User: w.user, Category: category}
	for algorithm := range algorithms {
		w.empty(stateName(key, Algorithm(algorithm)))
	}
	w.empty(capName(key))
	for _, rules := range plan.NamedCaps() {
		w.empty(namedName(key, rules))
	}
}

func (w *Windows) empty(name cellName) { *w.cell(name) = cell{name: name} }

// cell is the cell of a name, which is made when there is none.
func (w *Windows) cell(name cellName) *cell {
	for _, c := range w.cells {
		if c.name == name {
			return c
		}
	}
	c := &cell{name: name}
	w.cells = append(w.cells, c)
	return c
}

// Window is the windows of a user, as the plan of one category sees them.
type Window struct {
	request memoryRequest
	all     *Windows
}

// Under is what a plan sees of the windows. Closed intervals are left to the caller.
func (w *Windows) Under(category string, plan Plan) *Window {
	key := Key{User: w.user, Category: category}
	plan.Closed = nil
	req := memoryRequest{key: key, plan: plan, namedRules: plan.NamedCaps()}
	if plan.counted() {
		req.state = w.cell(stateName(key, plan.Algorithm))
	}
	if plan.capped() {
		req.cap = w.cell(capName(key))
	}
	for _, rules := range req.namedRules {
		req.named = append(req.named, w.cell(namedName(key, rules)))
	}
	return &Window{req, w}
}

// at prepares a call at a moment for one that asks.
func (w *Window) at(now Micros, head Head) *memoryRequest {
	w.request.now, w.request.plan.Head = now, head
	return &w.request
}

// Next is the earliest moment, not before now, that the rules allow, and the index of the rule that decides it, or
// [NoRule].
func (w *Window) Next(now Micros, head Head) (at Micros, rule int) { return w.at(now, head).free() }

// Bypass is when one goes that no rule holds, see the function [Bypass].
func (w *Window) Bypass(now Micros, head Head) Micros { return w.at(now, head).bypass() }

// Bound is since when the rules allow one more, which may have passed; 0 when they always did.
func (w *Window) Bound(now Micros, head Head) Micros {
	req := w.at(now, head)
	var logs [mostLogs]Log
	at, _ := Bound(now, req.counted(logs[:0])...)
	if req.plan.Algorithm.KeepsLog() {
		return at
	}
	for _, r := range req.plan.CategoryRules() {
		at = max(at, req.state.bound(req.plan.Algorithm, r, 0)) // 0 for what was never charged
	}
	return at
}

// Shadowed are the shadow rules that would have one wait that goes at a moment: a bit for each, the first the lowest.
func (w *Window) Shadowed(now, at Micros, head Head) (which int64) {
	req := w.at(now, head)
	for i, r := range req.plan.Shadow {
		if bound, _ := Bound(now, req.log(req.state, []Rule{r})); bound > at {
			which |= 1 << i
		}
	}
	return which
}

// Charge counts an admission, whether the rules allow it or not.
func (w *Window) Charge(now, at Micros, head Head, token string) { w.at(now, head).charge(at, token) }

// Refund takes an admission out that was counted at a moment, also under named caps that the plan no longer has.
func (w *Window) Refund(now, at Micros, head Head, token string) {
	w.at(now, head).removeAdmission(token, at)
	for _, c := range w.all.cells {
		if c.name.named != "" {
			c.refundLog(token)
		}
	}
}
