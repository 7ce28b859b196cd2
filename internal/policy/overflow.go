package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
)

// MaxRungs is how many rungs an overflow ladder may have, and MaxWaiting bounds their numbers.
const (
	MaxRungs   = 16
	MaxWaiting = 1_000_000
)

// overflowActions are those that a rung names by a word.
var overflowActions = []string{
	string(notification.OverflowKeep), string(notification.OverflowDigest), string(notification.OverflowReplace),
	string(notification.OverflowDropOldest), string(notification.OverflowDropNew), string(notification.OverflowRefuse),
}

// ladderReader reads the overflow ladder of a category, whose other settings are known.
type ladderReader struct {
	*document

	path     string
	category Category
}

func (d ladderReader) read(e entry) notification.Ladder {
	path := d.path
	list, ok := e.value.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 || len(list.Values) > MaxRungs {
		d.add(e.value, path, "must be a list of 1 to %d rungs such as [{when: {waiting: 500}, then: drop_oldest}]", MaxRungs)
		return nil
	}
	if d.category.Bypass {
		d.add(e.key, path, "never does anything, because the category has bypass: true; remove one of the two")
	}
	var ladder notification.Ladder
	for i, value := range list.Values {
		item, faults := path+"["+strconv.Itoa(i)+"]", len(d.faults)
		if value = d.follow(item, value); value == nil {
			continue
		}
		rung := d.readRung(item, value)
		if len(d.faults) == faults {
			d.checkReached(item, value, ladder, rung)
		} else {
			rung = notification.Rung{} // it keeps the numbers of the others right
		}
		ladder = append(ladder, rung)
	}
	return ladder
}

func (d ladderReader) readRung(path string, node ast.Node) notification.Rung {
	var rung notification.Rung
	fields, ok := d.fields(path, node, "when", "then")
	if !ok {
		return rung
	}
	if f, ok := fields["when"]; ok {
		d.readWhen(join(path, "when"), f, &rung)
	} else {
		d.add(node, path, "needs when, a condition such as {waiting: 500} or {wait: 1h}")
	}
	f, ok := fields["then"]
	if !ok {
		d.add(node, path, "needs then: %s", strings.Join(overflowActions, ", "))
		return rung
	}
	d.readAction(join(path, "then"), f, &rung)
	if rung.Then == notification.OverflowRefuse && rung.Wait > 0 {
		d.add(f.value, join(path, "then"), "only a rung that says waiting can refuse: how long one would wait is known "+
			"once it was accepted; a producer refuses by that with max_wait")
	}
	return rung
}

func (d ladderReader) readWhen(path string, e entry, rung *notification.Rung) {
	fields, ok := d.fields(path, e.value, "waiting", "wait")
	if !ok {
		return
	}
	waiting, counts := fields["waiting"]
	wait, measures := fields["wait"]
	if counts == measures {
		d.add(e.value, path, "needs one of waiting and wait")
		return
	}
	if counts {
		rung.Waiting = d.wholeNumber(join(path, "waiting"), waiting.value, 1, MaxWaiting)
	} else {
		rung.Wait = d.duration(join(path, "wait"), wait.value, time.Microsecond, MaxWait)
	}
}

func (d ladderReader) readAction(path string, e entry, rung *notification.Rung) {
	text, _ := scalar(e.value)
	if !slices.Contains(overflowActions, text) && strings.Contains(e.value.String(), "channel:") {
		d.add(e.value, path, "can't move it to another channel; must be one of %s",
			strings.Join(overflowActions, ", "))
	} else if !slices.Contains(overflowActions, text) {
		d.add(e.value, path, "must be one of %s, is %s%s", strings.Join(overflowActions, ", "),
			nearest.Quote(e.value.String()), nearest.Hint(text, overflowActions))
	}
	rung.Then = notification.OverflowAction(text)
}

// checkReached refuses a rung that never decides: one before it holds whenever it does, and always has something to do;
// or max_defer ends what it is for.
func (d ladderReader) checkReached(item string, node ast.Node, before notification.Ladder, rung notification.Rung) {
	for i, r := range before {
		waiting := r.Waiting > 0 && r.Waiting <= rung.Waiting
		wait := r.Wait > 0 && r.Wait <= rung.Wait
		grown := r.Then.Grows() && (rung.Waiting > r.Waiting || rung.Wait > r.Wait)
		if (waiting || wait) && !grown && !r.MayPass() {
			d.add(node, item, "is never reached: %s[%d] (%s) holds whenever %s does; write the higher one first", d.path, i,
				r.Condition(), rung.Condition())
			return
		}
	}
	if rung.Wait >= d.category.MaxDefer {
		d.add(node, item, "is never reached: max_defer %s ends what would wait so long", formatDuration(d.category.MaxDefer))
	}
}

// addOverflow adds the ladders to a table of all categories, where there are any.
func (p *Policy) addOverflow(t *Table) {
	hasLadder := func(row []string) bool { return len(p.Categories[row[0]].Overflow) > 0 }
	if !slices.ContainsFunc(t.Rows, hasLadder) {
		return
	}
	t.Head = append(t.Head, "Overflow")
	for i, row := range t.Rows {
		t.Rows[i] = append(row, cmp.Or(overflowOf(p.Categories[row[0]].Overflow), "-"))
	}
}

// overflowOf says what a ladder does, the rungs in order.
func overflowOf(ladder notification.Ladder) string {
	texts := make([]string, len(ladder))
	for i, rung := range ladder {
		texts[i] = rung.String()
	}
	return strings.Join(texts, ", ")
}
