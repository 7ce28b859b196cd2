package httpsend_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

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
