package agenda

import (
	"testing"
	"time"

	"github.com/pacer-notify/pacer/internal/throttle"
)

// However many wait in however many backlogs, a timetable takes a bounded number of steps, and comes to a moment that
// is not too late.
func TestATimetableIsBounded(t *testing.T) {
	t.Parallel()
	rules := []throttle.Rule{{Max: 10, Per: time.Minute}, {Max: 15, Per: time.Minute, Kind: throttle.KindCap}}
	const each, begin = 100_000, throttle.Micros(1_800_000_000_000_000)
	last, ofCap := &asked{}, &throttle.Past{}
	table := &timetable{begin: begin, now: begin}
	for _, category := range []string{"chat", "news"} {
		var cuts []cut
		if category == "chat" {
			cuts = []cut{{standing: standing{place: 3*band - 1, asked: last}, before: each}}
		}
		plan := throttle.Plan{Rules: rules}
		table.tracks = append(table.tracks, &track{
			settings: Settings{Plan: plan}, queue: queueOf([4]int{0, 0, each, 0}, nil, cuts),
			projection: throttle.NewProjection(begin, throttle.Key{User: "ada", Category: category}, plan, nil, ofCap),
		})
	}
	table.plan()
	optimum := begin.Add(2 * each / 15 * time.Minute)
	if table.steps > 2*maxSteps || last.at == 0 || last.at > optimum.Add(time.Minute) ||
		last.at < begin.Add(each/10*time.Minute) {
		t.Errorf("the last goes after %s, in %d steps", last.at.Sub(begin), table.steps)
	}
}
