package app_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/test/apitest"
)

// under makes a request to an address under a host of another name, as a browser does whose page had that name point
// there.
func under(t *testing.T, method, address, path, host, body string, header http.Header) (status int, reply string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header, request.Host = header.Clone(), host
	if request.Header == nil {
		request.Header = http.Header{}
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := apitest.Once.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// A web page whose name was made to point at this machine neither sends nor reads, at either listener.
func TestPagesThatPointHereGetNothing(t *testing.T) {
	t.Parallel()
	d := newDeployment(t, onRedis, crowdPolicy, 0)
	s := d.settings()
	s.AllowedHosts = []string{"pacer.example"}
	open := d.startWith(s)
	s = d.settings()
	s.APITokens, s.OpsToken = []string{"t"}, "t"
	guarded := d.startWith(s)
	const evil, body = "evil.example:8080", `{"user_id":"ada","channel":"log","title":"x"}`
	bearer := http.Header{"Authorization": {"Bearer t"}}
	for _, c := range []struct {
		name, method, address, path, host, body string
		header                                  http.Header
		want                                    int
	}{
		{
			name: "post to an open API under a foreign name", method: http.MethodPost, address: open.Addr(),
			path: "/v1/notifications", host: evil, body: body, want: http.StatusMisdirectedRequest,
		},
		{
			name: "read an open API under a foreign name", method: http.MethodGet, address: open.Addr(),
			path: "/v1/stats", host: evil, want: http.StatusMisdirectedRequest,
		},
		{
			name: "read an open API under its address", method: http.MethodGet, address: open.Addr(),
			path: "/v1/stats", host: open.Addr(), want: http.StatusOK,
		},
		{
			name: "read an open API under an allowed name", method: http.MethodGet, address: open.Addr(),
			path: "/v1/stats", host: "pacer.example", want: http.StatusOK,
		},
		{
			name: "open snapshot under a foreign name", method: http.MethodGet, address: open.OpsAddr(),
			path: "/snapshot", host: evil, want: http.StatusMisdirectedRequest,
		},
		{
			name: "open metrics under a foreign name", method: http.MethodGet, address: open.OpsAddr(),
			path: "/metrics", host: evil, want: http.StatusMisdirectedRequest,
		},
		{
			name: "open metrics under an allowed name", method: http.MethodGet, address: open.OpsAddr(),
			path: "/metrics", host: "pacer.example", want: http.StatusOK,
		},
		{
			name: "readiness under localhost", method: http.MethodGet, address: open.OpsAddr(),
			path: "/readyz", host: "localhost", want: http.StatusOK,
		},
		{
			name: "post without the token", method: http.MethodPost, address: guarded.Addr(),
			path: "/v1/notifications", host: evil, body: body, want: http.StatusUnauthorized,
		},
		{
			name: "post with the token", method: http.MethodPost, address: guarded.Addr(),
			path: "/v1/notifications", host: evil, body: body, header: bearer, want: http.StatusAccepted,
		},
		{
			name: "metrics without the token", method: http.MethodGet, address: guarded.OpsAddr(),
			path: "/metrics", host: evil, want: http.StatusMisdirectedRequest,
		},
		{
			name: "metrics with the token", method: http.MethodGet, address: guarded.OpsAddr(),
			path: "/metrics", host: evil, header: bearer, want: http.StatusOK,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if status, reply := under(t, c.method, c.address, c.path, c.host, c.body, c.header); status != c.want {
				t.Errorf("%s %s under %s: %d %s, want %d", c.method, c.path, c.host, status, reply, c.want)
			}
		})
	}
}
