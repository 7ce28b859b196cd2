package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pacer-notify/pacer/internal/app"
	"github.com/pacer-notify/pacer/internal/ops"
	"github.com/pacer-notify/pacer/test/apitest"
)

// act takes an action on a process's ops pages and returns the response's text.
func (d *fleet) act(process *app.App, want int, action ops.Action) string {
	d.t.Helper()
	body, err := json.Marshal(action)
	if err != nil {
		d.t.Fatal(err)
	}
	status, text := d.askOps(process, http.MethodPost, "/actions", body)
	if status != want {
		d.t.Fatalf("%+v returned %d: %s", action, status, text)
	}
	return text
}

// askOps makes a request to a process's ops pages.
func (d *fleet) askOps(process *app.App, method, page string, body []byte) (status int, text string) {
	d.t.Helper()
	request, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+process.OpsAddr()+page,
		bytes.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	request.Header.Set("Pacer-Operator", "tester")
	response, err := apitest.Client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return response.StatusCode, string(all)
}

func (d *fleet) snapshot(process *app.App) (s ops.Snapshot) {
	d.t.Helper()
	page := d.opsPage(process, "/snapshot")
	if err := json.Unmarshal([]byte(page), &s); err != nil {
		d.t.Fatalf("%v: %s", err, page)
	}
	return s
}

// opsPage reads one of a process's ops pages, again while the stores are too slow for it.
func (d *fleet) opsPage(process *app.App, page string) string {
	d.t.Helper()
	_, text := d.askOps(process, http.MethodGet, page, nil)
	return text
}

// awaitPage waits until an ops page of a process shows a text.
func (d *fleet) awaitPage(process *app.App, page, text string) {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for shown := d.opsPage(process, page); !strings.Contains(shown, text); shown = d.opsPage(process, page) {
		if time.Now().After(deadline) {
			d.t.Fatalf("%s never showed %q: %s", page, text, shown)
		}
		<-ticker.C
	}
}

// logs is all that the processes have logged.
func (d *fleet) logs() string {
	var all strings.Builder
	for _, l := range d.processLogs {
		l.mu.Lock()
		all.Write(l.text)
		l.mu.Unlock()
	}
	return all.String()
}

// awaitLog waits until a process has logged a text so many times.
func (d *fleet) awaitLog(text string, times int) {
	d.t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for strings.Count(d.logs(), text) < times {
		if time.Now().After(deadline) {
			d.t.Fatalf("nobody logged %q %d times", text, times)
		}
		<-ticker.C
	}
}

// client is a connection to the deployment's Redis.
func (d *fleet) client() *redis.Client {
	d.t.Helper()
	options, err := redis.ParseURL(d.redisURL)
	if err != nil {
		d.t.Fatal(err)
	}
	client := redis.NewClient(options)
	d.t.Cleanup(func() { _ = client.Close() })
	return client
}

// dump is all that Redis holds, as text.
func (d *fleet) dump() string {
	d.t.Helper()
	var all strings.Builder
	client := d.client()
	ctx := d.t.Context()
	for _, key := range client.Keys(ctx, "*").Val() {
		all.WriteString(key + "\n")
		switch client.Type(ctx, key).Val() {
		case "string":
			all.WriteString(client.Get(ctx, key).Val())
		case "hash":
			fmt.Fprintln(&all, client.HGetAll(ctx, key).Val())
		case "list":
			fmt.Fprintln(&all, client.LRange(ctx, key, 0, -1).Val())
		case "set":
			fmt.Fprintln(&all, client.SMembers(ctx, key).Val())
		case "zset":
			fmt.Fprintln(&all, client.ZRangeWithScores(ctx, key, 0, -1).Val())
		}
	}
	return all.String()
}

// flushRedis loses all of Redis.
func (d *fleet) flushRedis() {
	d.t.Helper()
	if err := d.client().FlushDB(d.t.Context()).Err(); err != nil {
		d.t.Fatal(err)
	}
}

// awaitDelivered waits until a notification is.
func (d *fleet) awaitDelivered(id string) {
	d.t.Helper()
	d.awaitView(id, "delivered", "")
}

// awaitView waits until a notification is shown with a status, and with a reason unless that is empty. With Postgres,
// one is shown as queued for as long as Redis takes long to respond.
func (d *fleet) awaitView(id, status, reason string) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		v := d.view(id)
		if v.Status == status && (reason == "" || v.Reason == reason) {
			return
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("notification %s is %+v, want it %s %s", id, v, status, reason)
		}
	}
}

func (d *fleet) awaitKnownOf(user string, allowed bool) {
	d.t.Helper()
	first := d.apps[0]
	for i := range d.apps {
		d.apps[0] = d.apps[i]
		deadline := time.Now().Add(patience)
		for known := false; !known; <-time.After(20 * time.Millisecond) {
			var throttle struct{ Allowed bool }
			d.call(http.MethodGet, "/v1/users/"+user+"/throttle?category=default", nil, nil, &throttle)
			if known = throttle.Allowed == allowed; time.Now().After(deadline) {
				d.t.Fatalf("process %d does not know that allowed is %t for %s", i, allowed, user)
			}
		}
		d.apps[0] = first
	}
}

// stop ends every process of the deployment.
func (d *fleet) stop() {
	d.t.Helper()
	for _, process := range d.apps {
		if err := process.Stop(context.Background()); err != nil {
			d.t.Fatal(err)
		}
	}
	d.apps = nil
}

// eventually waits until something is so.
func (d *fleet) eventually(what string, ok func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("it never comes true that %s", what)
		}
	}
}
