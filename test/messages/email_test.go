package messages_test

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/test/apitest"
)

// refusedEmail is the refusal of an e-mail with content in its own format.
func refusedEmail(override string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		n := &notification.Notification{ID: "n1", UserID: "ada", Override: json.RawMessage(override)}
		err := email.Checker{}.CheckContent(n)
		if err == nil {
			t.Fatalf("%s is taken", override)
		}
		return err.Error()
	}
}

// notSent is why no sender is made of settings.
func notSent(bounceAddress string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		_, err := email.New(email.Config{
			Server: "smtp://mail.example.com", From: "pacer@example.com", BounceAddress: bounceAddress,
		})
		if err == nil {
			t.Fatalf("%s is taken", bounceAddress)
		}
		return err.Error()
	}
}

// title is what a page says first to a user who follows a link.
func (d *fleet) title(path string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		url := "http://" + d.process.Addr() + path
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := apitest.Once.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		page, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile(`(?s)<h1>(.*?)</h1>\s*<p>(.*?)</p>`).FindSubmatch(page)
		if text == nil {
			t.Fatalf("the page is %s", page)
		}
		return string(text[1]) + " " + string(text[2])
	}
}

// emailRows are about e-mails, and what comes back about them.
func emailRows(d *fleet) []row {
	return []row{
		{
			name: "a header that pacer sets", provoke: refusedEmail(`{"headers":{"List-Unsubscribe":"<https://x>"}}`),
			want: "headers: List-Unsubscribe is set by pacer or by mail servers, not by a notification",
		},
		{
			name: "a header with a colon", provoke: refusedEmail(`{"headers":{"X:":"y"}}`),
			want: "headers: a name has 1 to 64 letters, digits and dashes",
		},
		{
			name: "a header of two lines", provoke: refusedEmail(`{"headers":{"X-A":"b\nBcc: c"}}`),
			want: "headers: X-A must not hold control characters or line breaks",
		},
		{
			name: "a long header", provoke: refusedEmail(`{"headers":{"X-A":"` + strings.Repeat("b", 501) + `"}}`),
			want: "headers: X-A may have at most 500 bytes, has 501",
		},
		{
			name: "an empty header", provoke: refusedEmail(`{"headers":{"X-A":""}}`),
			want: "headers: X-A is empty",
		},
		{
			name: "a header twice", provoke: refusedEmail(`{"headers":{"X-A":"b","X-a":"c"}}`),
			want: "headers: X-a is given twice, in upper and lower case",
		},
		{
			name: "a list of headers", provoke: refusedEmail(`{"headers":["X-A"]}`),
			want: "subject, text, html and reply_to must be texts, headers an object of texts, and attachments a list of " +
				"objects with name, type, content and cid",
		},
		{
			name: "an attachment that is no base64", provoke: refusedEmail(`{"attachments":[{"name":"a","content":"{}"}]}`),
			want: "attachments[0]: content: must be base64",
		},
		{
			name: "an attachment without a name", provoke: refusedEmail(`{"attachments":[{"content":""}]}`),
			want: "attachments[0]: name: must have 1 to 200 bytes, without slashes and control characters",
		},
		{
			name: "an attachment of a wrong type", provoke: refusedEmail(`{"attachments":[{"name":"a","type":"pdf"}]}`),
			want: "attachments[0]: type: must be the media type of a file, such as application/pdf",
		},
		{
			name: "an attachment with a wrong cid", provoke: refusedEmail(`{"attachments":[{"name":"a","cid":"<a>"}]}`),
			want: "attachments[0]: cid: may have up to 64 letters, digits and . _ - @",
		},
		{
			name: "a member that is almost right", provoke: refusedEmail(`{"attachment":[]}`),
			want: "may hold attachments, headers, html, reply_to, subject, text (did you mean attachments?)",
		},
		{
			name: "a long bounce address", provoke: notSent("undeliverable-mail@example.com"),
			want: "the bounce address must have at most 16 characters before the @, and no +: a token of 48 follows them",
		},
		{
			name: "a bounce address without a key", provoke: notSent("bounces@example.com"),
			want: "the bounce address needs a key that signs its tokens: set --unsubscribe-key (PACER_UNSUBSCRIBE_KEY)",
		},
		{
			name: "a bounce address in the settings, without a key", provoke: run(&dispatcherPath, nil, "serve",
				"--email-server=smtp://m", "--email-from=a@example.com", "--email-bounce-address=b@example.com"),
			want: "dispatcher: --email-bounce-address (PACER_EMAIL_BOUNCE_ADDRESS) needs --unsubscribe-key " +
				"(PACER_UNSUBSCRIBE_KEY) to be set too",
		},
		{
			name: "a public URL without https", provoke: run(&dispatcherPath, []string{"DATABASE_URL=postgres://d/x"},
				"serve", "--public-url=http://example.com", "--unsubscribe-key="+strings.Repeat("k", 32)),
			want: "dispatcher: --public-url (PACER_PUBLIC_URL) must begin with https://, since mail providers call no other",
		},
		{
			name: "a public URL without a store", provoke: run(&dispatcherPath, nil,
				"serve", "--public-url=https://example.com", "--unsubscribe-key="+strings.Repeat("k", 32)),
			want: "dispatcher: --public-url (PACER_PUBLIC_URL) needs --redis-url (REDIS_URL) to be set too, or " +
				"--database-url: else a restart forgets what users unsubscribed from",
		},
		{
			name: "a short key", provoke: run(&dispatcherPath, nil, "serve", "--unsubscribe-key=secret"),
			want: "dispatcher: --unsubscribe-key (PACER_UNSUBSCRIBE_KEY) must have at least 32 characters, number 1 has 6; " +
				"make one with openssl rand -hex 32",
		},
		{
			name: "what came back, without a key",
			provoke: d.call(http.MethodPost, "/v1/email/bounces", "message/rfc822",
				"Subject: x\r\n\r\n"),
			want: "without a key, no e-mail that comes back can be recognized: set PACER_UNSUBSCRIBE_KEY",
		},
		{
			name: "a link that is cut off", provoke: d.title("/v1/unsubscribe/x"),
			want: "This link does not work. Part of it may be missing: open it from the e-mail again. Or ask whoever sent " +
				"the e-mail to unsubscribe you.",
		},
		{
			name:    "a form without its field",
			provoke: d.call(http.MethodPost, "/v1/unsubscribe/x", "application/x-www-form-urlencoded", "a=b"),
			want:    "send a form with List-Unsubscribe=One-Click or Subscribe=Again",
		},
		{
			name:    "what came back, without an API",
			provoke: run(&dispatcherPath, nil, "bounce", "--server=http://127.0.0.1:1"),
			want: `dispatcher: post the message to pacer: Post "http://127.0.0.1:1/v1/email/bounces": dial tcp ` +
				"127.0.0.1:1: connect: connection refused; is --server its API?",
		},
	}
}
