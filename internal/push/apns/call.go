package apns

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/sideshow/apns2"
	"github.com/sideshow/apns2/token"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// post makes one call. The library's own would encode the payload a second time, and make a decoder and a timer for a
// response that is empty and a context that ends sooner.
func (s *Sender) post(ctx context.Context, trace *httpsend.Trace, n *notification.Notification,
	message *message, with *token.Token,
) *push.Error {
	ctx, cancel := httpsend.Within(ctx, s.cfg.Timeout)
	defer cancel()
	bearer := with.GenerateIfExpired()
	request, err := s.request(trace.Attach(ctx), message, bearer)
	if err != nil {
		return trace.Classify(err)
	}
	response, err := s.transport.RoundTrip(request)
	if err != nil {
		return trace.Classify(err)
	}
	defer response.Body.Close()
	text, cut := httpsend.FinishRefusal(ctx, response)
	failure := classify(response, text, cut, message.Topic == s.cfg.Topic)
	if failure != nil {
		failure.Reply = push.Reply([]byte(text), n, bearer)
	}
	return failure
}

// request makes the request of a message. Its headers are those that the library would set.
func (s *Sender) request(ctx context.Context, m *message, bearer string) (*http.Request, error) {
	target := s.cfg.Host + "/3/device/" + m.DeviceToken
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(m.payload))
	if err != nil {
		return nil, err
	}
	values := make([]string, 0, 8) // one allocation for all
	set := func(name, value string) {
		values = append(values, value)
		request.Header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	request.Header = make(http.Header, cap(values))
	set("Authorization", "bearer "+bearer)
	set("Content-Type", "application/json; charset=utf-8")
	set("Apns-Topic", m.Topic)
	set("Apns-Id", m.ApnsID)
	set("Apns-Push-Type", string(m.PushType))
	if m.CollapseID != "" {
		set("Apns-Collapse-Id", m.CollapseID)
	}
	if m.Priority > 0 {
		set("Apns-Priority", strconv.Itoa(m.Priority))
	}
	if m.Expiration.After(time.Unix(0, 0)) {
		set("Apns-Expiration", strconv.FormatInt(m.Expiration.Unix(), 10))
	}
	return request, nil
}

// expiredToken is the code of a refusal after which a new token helps.
const expiredToken = "403.ExpiredProviderToken"

// classify says what a response means; nil is delivered. cut is true when its text is not all of it, and own when the
// topic is the configured one. Of the text only known reasons become part of the code.
func classify(response *http.Response, text string, cut, own bool) *push.Error {
	read, said := httpsend.ResponseOf(response), apns2.Response{}
	read.Cut = cut
	if response.StatusCode != http.StatusOK && json.Unmarshal([]byte(text), &said) == nil {
		read.Reason = said.Reason
	}
	if own {
		read.Conditions = []string{ownTopic}
	}
	failure := responses.Read(read)
	if failure != nil && failure.Class == push.TargetGone && said.Timestamp.Unix() > 0 {
		failure.GoneSince = said.Timestamp.Time
	}
	return failure
}
