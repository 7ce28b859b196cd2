package email

import (
	"context"
	"crypto/tls"
	"errors"
	"net/textproto"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// classify says what a server's refusal of a message means (RFC 5321, and RFC 3463 for the enhanced codes).
func classify(failed *gomail.SendError) *push.Error {
	status, enhanced := failed.ErrorCode(), failed.EnhancedStatusCode()
	failure := &push.Error{Class: push.Permanent, Code: strconv.Itoa(status)}
	if enhanced != "" && strings.Trim(enhanced, "0123456789.") == "" {
		failure.Code += "." + enhanced
	}
	switch {
	case status == 530 || status == 535 || status == 538 || enhanced == "5.7.8":
		failure.Class = push.CredentialsRefused
	case status < 500:
		failure.Class = push.Transient
	case isGone(enhanced):
		failure.Class = push.TargetGone
	}
	return failure
}

// replyOf is what the server said, of an error that also says what the library did.
func replyOf(failed *gomail.SendError) string {
	said := strings.TrimPrefix(failed.Error(), failed.Reason.String()+": ")
	for _, added := range []string{", affected message ID: ", ", affected recipient(s): "} {
		if at := strings.LastIndex(said, added); at >= 0 {
			said = said[:at]
		}
	}
	code, words, _ := strings.Cut(said, " ")
	if quoted, err := strconv.QuotedPrefix(words); err == nil {
		if words, err = strconv.Unquote(quoted); err == nil {
			return code + " " + words
		}
	}
	return said
}

// isGone tells whether an enhanced code says that there is no such mailbox or no such domain.
func isGone(enhanced string) bool {
	switch enhanced {
	case "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1":
		return true
	}
	return false
}

// classifyConnection says what a broken connection means. over is true when the server may have read the whole message.
func classifyConnection(ctx context.Context, err error, over bool) *push.Error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	failure := (&httpsend.Trace{}).Classify(err)
	if over {
		failure.Class, failure.Unsent = push.Ambiguous, false
	}
	return failure
}

// classifyOpening says what it means when no connection could be opened; nothing was sent. The
// failure's Reply shows none of the secrets.
func classifyOpening(ctx context.Context, err error, secrets ...string) *push.Error {
	if ctx.Err() != nil {
		return classifyConnection(ctx, err, false)
	}
	if reply, ok := errors.AsType[*textproto.Error](err); ok {
		failure := &push.Error{Class: push.Transient, Code: strconv.Itoa(reply.Code), Unsent: true}
		failure.Reply = push.Reply([]byte(strconv.Itoa(reply.Code)+" "+reply.Msg), nil, secrets...)
		if reply.Code >= 500 { // the server refused the greeting or the credentials
			failure.Class, failure.ChannelWide = push.CredentialsRefused, true
		}
		return failure
	}
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	if certificate || strings.Contains(err.Error(), "does not support STARTTLS") ||
		strings.Contains(err.Error(), "SMTP AUTH") {
		return &push.Error{Class: push.CredentialsRefused, Code: "tls_or_auth", Unsent: true, ChannelWide: true}
	}
	return classifyConnection(ctx, err, false)
}
