package receiver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pacer-notify/pacer/internal/receiver"
)

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	body   = `{"id":"n1","user_id":"ada","category":"chat","title":"hello"}`
)

// post hands a body to the receiver, signed unless the secret is empty, and gives the response's status.
func post(t *testing.T, r http.Handler, path, body, secret string) int {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Webhook-Id", "n1")
	request.Header.Set("Pacer-Attempt", "2")
	if secret != "" {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		signature, err := signer.Sign("n1", now, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		request.Header.Set("Webhook-Signature", signature)
	}
	response := httptest.NewRecorder()
	r.ServeHTTP(response, request)
	return response.Code
}

// receive makes a receiver that keeps what it is told.
func receive(t *testing.T, cfg receiver.Config) (*receiver.Receiver, *[]receiver.Arrival) {
	t.Helper()
	var arrived []receiver.Arrival
	cfg.Arrived = func(a receiver.Arrival) { arrived = append(arrived, a) }
	r, err := receiver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r, &arrived
}

// What arrives is told, with the time since the one before of the same user at the same path.
func TestArrivals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, arrived := receive(t, receiver.Config{})
		post(t, r, "/", body, "")
		<-time.After(3 * time.Second)
		post(t, r, "/phone", body, "")
		post(t, r, "/", strings.Replace(body, "ada", "ben", 1), "")
		post(t, r, "/", body, "")
		var gaps []string
		for _, a := range *arrived {
			gap := "none"
			if a.Gap != nil {
				gap = a.Gap.String()
			}
			gaps = append(gaps, a.UserID+a.Path+" "+gap)
		}
		want := []string{"ada/ none", "ada/phone none", "ben/ none", "ada/ 3s"}
		if diff := cmp.Diff(want, gaps); diff != "" {
			t.Errorf("gaps (-want +got):\n%s", diff)
		}
		text, err := json.Marshal((*arrived)[3])
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{
			`"id":"n1"`, `"category":"chat"`, `"title":"hello"`, `"attempt":2`, `"gap_seconds":3`, `"status":204`,
			`"signature":"unsigned"`,
		} {
			if !strings.Contains(string(text), field) {
				t.Errorf("%s lacks %s", text, field)
			}
		}
	})
}

func TestSignatures(t *testing.T) {
	t.Parallel()
	const other = "whsec_b3RoZXJvdGhlcm90aGVyb3RoZXJvdGhlcg=="
	for name, test := range map[string]struct {
		secrets []string
		signed  string
		want    receiver.Signature
	}{
		"Unsigned":     {secrets: []string{secret}, want: receiver.Unsigned},
		"Valid":        {secrets: []string{secret}, signed: secret, want: receiver.Valid},
		"OneOfTwo":     {secrets: []string{other, secret}, signed: secret, want: receiver.Valid},
		"AnotherOne":   {secrets: []string{other}, signed: secret, want: receiver.Invalid},
		"NoneToVerify": {signed: secret, want: receiver.NotChecked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, arrived := receive(t, receiver.Config{Secrets: test.secrets})
			post(t, r, "/", body, test.signed)
			if got := (*arrived)[0].Signature; got != test.want {
				t.Errorf("the signature is %s, want %s", got, test.want)
			}
		})
	}
	if _, err := receiver.New(receiver.Config{Secrets: []string{"canary"}}); err == nil ||
		strings.Contains(err.Error(), "canary") {
		t.Errorf("a secret of another form: %v", err)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for told, want := range map[string]string{
		"": "......", "503": "xxxxxx", "503:2": "xx....", "429:50%": ".x.x.x", "500:100%": "xxxxxx",
	} {
		t.Run(told, func(t *testing.T) {
			t.Parallel()
			fail, err := receiver.ParseFailure(told)
			if err != nil {
				t.Fatal(err)
			}
			r, _ := receive(t, receiver.Config{Fail: fail})
			got := ""
			for range want {
				if status := post(t, r, "/", body, ""); status == http.StatusNoContent {
					got += "."
				} else if status == fail.Status {
					got += "x"
				}
			}
			if got != want || r.Summary().Failed != strings.Count(want, "x") {
				t.Errorf("%s, %+v; want %s", got, r.Summary(), want)
			}
		})
	}
	for _, wrong := range []string{"often", "200", "600", "503:", "503:0", "503:101%", "503:x", "503:-1"} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			if f, err := receiver.ParseFailure(wrong); err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("read as %+v, %v", f, err)
			}
		})
	}
}

func TestASlowResponse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := receive(t, receiver.Config{Slow: 2 * time.Second})
		start := time.Now()
		post(t, r, "/", body, "")
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %s", took)
		}
	})
}

func TestWhatIsNoNotification(t *testing.T) {
	t.Parallel()
	r, arrived := receive(t, receiver.Config{})
	if status := post(t, r, "/", "hello", ""); status != http.StatusBadRequest || (*arrived)[0].Fault == "" ||
		r.Summary().Faulty != 1 {
		t.Errorf("status %d, %+v", status, *arrived)
	}
	response := httptest.NewRecorder()
	r.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if response.Code != http.StatusMethodNotAllowed || !strings.Contains(response.Body.String(), "POST") {
		t.Errorf("a browser sees %d, %s", response.Code, response.Body)
	}
}
