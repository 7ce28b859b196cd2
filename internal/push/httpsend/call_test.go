package httpsend_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// silent never responds.
type silent struct{}

func (silent) RoundTrip(request *http.Request) (*http.Response, error) {
	<-request.Context().Done()
	return nil, request.Context().Err()
}

// A call ends with its context or after the client's timeout, whichever comes first, and says of both that it took too
// long.
func TestACallIsBounded(t *testing.T) {
	t.Parallel()
	const timeout = time.Minute
	for name, test := range map[string]struct{ context, want time.Duration }{
		"no deadline":      {0, timeout},
		"a later deadline": {time.Hour, timeout},
		"a sooner one":     {10 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := func() (context.Context, context.CancelFunc) {
					if test.context == 0 {
						return context.WithCancel(t.Context())
					}
					return context.WithTimeout(t.Context(), test.context)
				}
				check := func(what string, began time.Time, err error) {
					t.Helper()
					if took := time.Since(began); took != test.want {
						t.Errorf("%s: it took %s, want %s", what, took, test.want)
					}
					if failure := (&httpsend.Trace{}).Classify(err); failure.Code != "timeout" {
						t.Errorf("%s: %v is %s", what, err, failure.Code)
					}
				}
				ctx, cancel := begin()
				defer cancel()
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://push.example.com", nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				client := httpsend.NewClient(silent{}, timeout)
				response, err := httpsend.Do(client, request)
				if err == nil {
					_ = response.Body.Close()
					t.Fatal("there is a response")
				}
				check("Do", began, err)
				if client.Timeout != timeout {
					t.Errorf("the client's timeout is %s by now", client.Timeout)
				}
				ctx, cancel = begin()
				defer cancel()
				began = time.Now()
				within, end := httpsend.Within(ctx, timeout)
				defer end()
				<-within.Done()
				check("Within", began, within.Err())
				if !errors.Is(within.Err(), context.DeadlineExceeded) {
					t.Errorf("it ends with %v", within.Err())
				}
			})
		})
	}
}

// A call whose connection ends after the server has read it is not made again: nobody knows what became of it. The
// standard library repeats those with these headers by itself.
func TestNoCallIsMadeTwice(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Webhook-Id", "Idempotency-Key", "X-Idempotency-Key"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil || r.Header.Get(name) != "n1" {
					t.Errorf("%s is %q, %v", name, r.Header.Get(name), err)
				}
				if calls.Add(1) > 1 {
					panic(http.ErrAbortHandler)
				}
			}))
			connections := httpsend.NewConnections(&net.Dialer{})
			t.Cleanup(func() { connections.Close(); server.Close() })
			client := httpsend.NewClient(httpsend.NewTransport(nil, connections), time.Minute)
			send := func() error {
				return httpsend.Call(t.Context(), client, func(ctx context.Context) (*http.Request, error) {
					body := strings.NewReader("text")
					request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, body)
					if err == nil {
						request.Header.Set(name, "n1")
					}
					return request, err
				}, func(*http.Response) *push.Error { return nil })
			}
			if err := send(); err != nil {
				t.Fatal(err)
			}
			failure, _ := errors.AsType[*push.Error](send())
			if failure == nil || failure.Class != push.Ambiguous || calls.Load() != 2 {
				t.Errorf("%d calls for two deliveries, the second ends with %v; want 2, ambiguous", calls.Load(), failure)
			}
		})
	}
}

// Whoever asks for more of a response than a person reads gets it, and nobody gets more than was asked for.
func TestFinishReadsAsMuchAsIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ size, beginning, want int }{
		{size: 100, beginning: push.ReplyRead, want: 100},
		{size: 20_000, beginning: push.ReplyRead, want: push.ReplyRead},
		{size: 20_000, beginning: httpsend.WholeReply, want: 20_000},
		{size: 1 << 20, beginning: httpsend.WholeReply, want: httpsend.WholeReply},
	} {
		response := &http.Response{Body: io.NopCloser(strings.NewReader(strings.Repeat("x", c.size)))}
		if got := len(httpsend.Finish(t.Context(), response, int64(c.beginning))); got != c.want {
			t.Errorf("of %d bytes it reads %d, want %d", c.size, got, c.want)
		}
	}
}
