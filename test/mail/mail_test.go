package mail_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/mail"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pacer-notify/pacer/test/apitest"
	"github.com/pacer-notify/pacer/test/postgrestest"
	"github.com/pacer-notify/pacer/test/processtest"
	"github.com/pacer-notify/pacer/test/redistest"
)

// programs has the dispatcher. It has to be a package variable: TestMain and the tests meet nowhere else.
var programs *processtest.Built

func TestMain(m *testing.M) {
	programs = processtest.Build(postgrestest.Around(redistest.Around(m)), "dispatcher")
	goleak.VerifyTestMain(programs)
}

const (
	apiToken = "the-token-of-this-test"
	policy   = `version: 1
categories:
  default: {limits: [{max: 100, per: 1m}]}
  newsletter: {limits: [{max: 100, per: 1m}]}
  security: {bypass: true}
`
)

// pacer is a dispatcher in a process, with Postfix as its mail server.
type pacer struct {
	t       *testing.T
	api     string
	postfix *postfix
}

func start(t *testing.T) *pacer {
	t.Helper()
	dispatcher := programs.Path("dispatcher")
	folder, err := os.MkdirTemp("", "mail-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	p := &pacer{t: t}
	listen, ops := freeAddr(t), freeAddr(t)
	p.api = "http://" + listen
	for path, text := range map[string]string{"policy.yaml": policy, "token": apiToken} {
		if err := os.WriteFile(filepath.Join(folder, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, opened := range []string{folder, filepath.Dir(dispatcher)} { // Postfix runs what is in them as nobody
		if err := os.Chmod(opened, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.postfix = startPostfix(t, dispatcher, "bounce", "--server", p.api, "--token",
		"file:"+filepath.Join(folder, "token"))
	process := exec.Command(dispatcher, "serve", "--listen", listen, "--ops-listen", ops, //nolint:noctx // it ends below
		"--policy", filepath.Join(folder, "policy.yaml"), "--public-url", p.api,
		"--email-server", "smtp://"+p.postfix.addr, "--email-from", "Pacer <pacer@example.com>",
		"--email-bounce-address", "bounces@bounces.example.com")
	process.Env = append(os.Environ(), "DATABASE_URL="+postgrestest.URL(t), "REDIS_URL="+redistest.URL(t),
		"PACER_API_TOKENS="+apiToken, "PACER_UNSUBSCRIBE_KEY="+strings.Repeat("k", 32),
		"SSL_CERT_FILE="+p.postfix.roots)
	var log bytes.Buffer
	process.Stderr = &log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Signal(syscall.SIGTERM)
		if err := process.Wait(); err != nil || t.Failed() {
			t.Errorf("the dispatcher: %v\n%s", err, log.String())
		}
	})
	await(t, "dispatcher", func() bool {
		response, err := apitest.Once.Get("http://" + ops + "/readyz") //nolint:noctx // bounded by await
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return p
}

func freeAddr(t *testing.T) string {
	t.Helper()
	port, err := processtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return processtest.Addr(port)
}

// call makes a request with the token and reads the response, which must have a status.
func (p *pacer) call(method, path, contentType, body string, want int, into any) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.api+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+apiToken)
	request.Header.Set("Content-Type", contentType)
	response, err := apitest.Client.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != want {
		p.t.Fatalf("%s %s: status %d, want %d: %s (%v)", method, path, response.StatusCode, want, text, err)
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			p.t.Fatal(err)
		}
	}
}

// shown is what the API says of a notification and of a device.
type shown struct {
	Status, Reason string
	Devices        []struct{ Device, Outcome, Reply string }
	Active         bool
	OptOut         struct{ Categories []string } `json:"opt_out"`
}

// send accepts a notification for a user and waits until it ends.
func (p *pacer) send(id, user, category, more string) shown {
	p.t.Helper()
	p.call(http.MethodPost, "/v1/notifications", "application/json", fmt.Sprintf(
		`{"id":%q,"user_id":%q,"category":%q,"channel":"email","title":"Grüße","body":"hello"%s}`, id, user, category,
		more), http.StatusAccepted, nil)
	var view shown
	p.postfix.await("end of "+id, func() bool {
		p.call(http.MethodGet, "/v1/notifications/"+id, "", "", http.StatusOK, &view)
		return view.Status == "delivered" || view.Status == "failed" || view.Status == "cancelled"
	})
	return view
}

func (p *pacer) register(user, address string) {
	p.t.Helper()
	p.call(http.MethodPut, "/v1/users/"+user+"/devices/mail", "application/json",
		`{"channel":"email","to":"`+address+`"}`, http.StatusOK, nil)
}

// read reads a message, with the contents of its parts by their names, or types where they have none.
func read(t *testing.T, text string) (*mail.Message, map[string]string) {
	t.Helper()
	message, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	readPart(t, message.Header.Get("Content-Type"), message.Body, all)
	return message, all
}

func readPart(t *testing.T, contentType string, body io.Reader, all map[string]string) {
	t.Helper()
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(media, "multipart/") {
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		all[media] = string(text)
		return
	}
	for reader := multipart.NewReader(body, params["boundary"]); ; {
		part, err := reader.NextPart()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if name := part.FileName(); name != "" {
			text, err := io.ReadAll(part)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = strings.TrimSpace(string(text))
			continue
		}
		readPart(t, part.Header.Get("Content-Type"), part, all)
	}
}

// What pacer sends is read back where it is delivered, and its link ends the sending.
func TestMailIsDeliveredAndUnsubscribedFrom(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.register("ada", "Ada <ada@example.com>")
	view := p.send("letter-1", "ada", "newsletter", `,"email":{"html":"<p>hello</p>","reply_to":"help@example.com",`+
		`"headers":{"X-Campaign":"spring ü"},"attachments":[{"name":"Größe.txt","type":"text/plain","content":"aGk="}]}`)
	if view.Status != "delivered" {
		t.Fatalf("the notification is %+v", view)
	}
	message, parts := read(t, p.postfix.delivered(1)[0])
	campaign, err := new(mime.WordDecoder).DecodeHeader(message.Header.Get("X-Campaign"))
	if err != nil || campaign != "spring ü" || message.Header.Get("Reply-To") != "<help@example.com>" {
		t.Errorf("the header is %v (%v)", message.Header, err)
	}
	if parts["Größe.txt"] != "aGk=" || strings.TrimSpace(parts["text/html"]) != "<p>hello</p>" ||
		strings.TrimSpace(parts["text/plain"]) != "hello" {
		t.Errorf("the parts are %q", parts)
	}
	if !strings.Contains(message.Header.Get("Received"), "using TLSv1.3") ||
		!strings.HasPrefix(message.Header.Get("Return-Path"), "<bounces+") {
		t.Errorf("the header is %v", message.Header)
	}
	link := strings.Trim(message.Header.Get("List-Unsubscribe"), "<> ")
	if message.Header.Get("List-Unsubscribe-Post") != "List-Unsubscribe=One-Click" || !strings.HasPrefix(link, p.api) {
		t.Fatalf("the header is %v", message.Header)
	}
	response, err := apitest.Client.Post(link, "application/x-www-form-urlencoded", //nolint:noctx // as a mail provider does
		strings.NewReader("List-Unsubscribe=One-Click"))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("one click gives status %d", response.StatusCode)
	}
	var preferences shown
	p.call(http.MethodGet, "/v1/users/ada/preferences", "", "", http.StatusOK, &preferences)
	if len(preferences.OptOut.Categories) != 1 || preferences.OptOut.Categories[0] != "newsletter" {
		t.Errorf("the preferences are %+v", preferences)
	}
	if view := p.send("letter-2", "ada", "newsletter", ""); view.Status != "cancelled" || view.Reason != "opted_out" {
		t.Errorf("the next one is %+v", view)
	}
	p.send("alert-1", "ada", "security", "")
	for _, text := range p.postfix.delivered(2) {
		if message, _ := read(t, text); strings.Contains(message.Header.Get("Message-Id"), "alert-1") &&
			message.Header.Get("List-Unsubscribe") != "" {
			t.Error("a category that bypasses offers to unsubscribe")
		}
	}
}

// Mail to an address that does not exist comes back through Postfix's pipe, and its device is deactivated. The address
// of the other device stays.
func TestMailThatComesBackDeactivatesItsDevice(t *testing.T) {
	t.Parallel()
	p := start(t)
	p.register("bob", "Bob <gone@example.com>")
	p.call(http.MethodPut, "/v1/users/bob/devices/other", "application/json",
		`{"channel":"email","to":"ada@example.com"}`, http.StatusOK, nil)
	if view := p.send("own-id-1", "bob", "default", ""); view.Status != "delivered" {
		t.Fatalf("the notification is %+v", view)
	}
	var device struct {
		Active        bool
		Reason        string
		DeactivatedAt time.Time `json:"deactivated_at"`
	}
	p.postfix.await("deactivation", func() bool {
		p.call(http.MethodGet, "/v1/users/bob/devices/mail", "", "", http.StatusOK, &device)
		return !device.Active
	})
	if device.Reason != "bounced: 5.1.1" {
		t.Errorf("the device is %+v", device)
	}
	p.call(http.MethodGet, "/v1/users/bob/devices/other", "", "", http.StatusOK, &device)
	if !device.Active {
		t.Errorf("the other device is %+v", device)
	}
	var view shown
	p.call(http.MethodGet, "/v1/notifications/own-id-1", "", "", http.StatusOK, &view)
	outcomes := map[string]string{}
	for _, d := range view.Devices {
		outcomes[d.Device] = d.Outcome
	}
	if outcomes["mail"] != "bounced: 5.1.1" || outcomes["other"] != "delivered" {
		t.Errorf("the deliveries are %+v", view.Devices)
	}
	p.postfix.await("line of Postfix's pipe", func() bool { return strings.Contains(p.postfix.said(), "relay=pacer") })
}
