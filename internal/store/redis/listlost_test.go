package redis_test

import (
	"fmt"
	"testing"

	"github.com/pacer-notify/pacer/internal/agenda"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/store/redis"
	"github.com/pacer-notify/pacer/internal/store/storetest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// What is there from the first page to the last is listed, whatever else goes from Redis, or comes to it, between two
// pages: a step of Redis's scan then looks at other keys when it comes again.
func TestNoPageLosesWhatStays(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 3, 10, 50} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			const users, others = 150, 1500
			client := redistest.Client(t)
			agendas, err := agenda.New(client, agenda.Config{Partitions: 4, Settings: storetest.Settings})
			if err != nil {
				t.Fatal(err)
			}
			store, unlisted := redis.New(client, agendas), map[string]bool{}
			for i := range users {
				id := fmt.Sprintf("n%d", i)
				unlisted[id] = true
				if _, err := store.Accept(t.Context(), []*notification.Notification{{
					ID: id, UserID: "user" + id, Category: "free", Channel: notification.ChannelLog,
					Priority: notification.PriorityNormal,
				}}); err != nil {
					t.Fatal(err)
				}
			}
			other := func(i int) string { return fmt.Sprintf("other%d", i) }
			for i := range others {
				if err := client.Set(t.Context(), other(i), i, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			pages, gone := 0, 0
			for f := (notification.Filter{Limit: limit}); ; pages++ {
				page, err := store.List(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Items) > limit {
					t.Errorf("a page has %d items, more than %d", len(page.Items), limit)
				}
				for i := range page.Items {
					delete(unlisted, page.Items[i].ID)
				}
				for range 12 * limit {
					client.Del(t.Context(), other(gone%others))
					client.Set(t.Context(), fmt.Sprint("new", gone), "", 0)
					gone++
				}
				if f.Cursor = page.Next; f.Cursor == "" {
					break
				}
			}
			if len(unlisted) > 0 {
				t.Errorf("%d of %d notifications are on none of the %d pages", len(unlisted), users, pages)
			}
		})
	}
}
