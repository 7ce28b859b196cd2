package main

import (
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/desk"
)

// Where something else holds everything back, nobody is told that something may go.
func TestFreeCategoriesUnderAnObstacle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		maySend bool
		want    string
	}{
		"nothing in the way": {maySend: true, want: "free          chat, default: may send now"},
		"no worker is alive": {want: "free          chat, default: no limit holds the next back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := desk.User{UserID: "ada", Standing: "no worker is alive", Categories: []desk.UserCategory{
				{Category: "chat", State: desk.StateFree, MaySendNow: c.maySend},
				{Category: "default", State: desk.StateFree, MaySendNow: c.maySend},
			}}
			var text strings.Builder
			if err := writePage(&text, func(p *page) { p.user(&u) }); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text.String(), c.want+"\n") {
				t.Errorf("the page is\n%swant %q", text.String(), c.want)
			}
		})
	}
}
