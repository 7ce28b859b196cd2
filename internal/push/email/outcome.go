package email

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"

	gomail "github.com/wneessen/go-mail"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// classify says what a server's refusal of a message to an address means.
func classify(failed *gomail.SendError, to string) *push.Error {
	read := push.Response{Status: failed.ErrorCode(), Reason: failed.EnhancedStatusCode()}
	switch {
	case failed.Reason == gomail.ErrSMTPMailFrom:
		read.Conditions = append(read.Conditions, ofSender)
	case noRelayWords.MatchString(replyOf(failed)):
		read.Conditions = append(read.Conditions, noRelay)
	}
	if strings.Contains(failed.Error(), tooFastWords) {
		read.Conditions = append(read.Conditions, tooFast)
	}
	if isInternational(to) {
		read.Conditions = append(read.Conditions, international)
	}
	failure := responses.Read(read)
	if failure == nil { // no code of a refusal, and yet a refusal
		failure = &push.Error{Class: push.Transient, Concerns: push.ConcernsHost}
	}
	failure.Code = strconv.Itoa(read.Status)
	if read.Reason != "" && strings.Trim(read.Reason, "0123456789.") == "" { // also one that the table does not know
		failure.Code += "." + read.Reason
	}
	return failure
}

// classifyNoUTF8 says what it means that a message needs SMTPUTF8 and the server does not offer it. Nothing was sent.
func classifyNoUTF8(message *gomail.Msg) *push.Error {
	whose, condition := "an address of the mail", noUTF8
	if needsUTF8(message, gomail.HeaderEnvelopeFrom, gomail.HeaderFrom) {
		whose, condition = "the sender's address", noUTF8Sender
	}
	failure := responses.Read(push.Response{Conditions: []string{condition}})
	failure.Code = "no_smtputf8"
	failure.Err = errors.New(whose + " is not ASCII before the @, which needs SMTPUTF8, and the mail server does not offer it")
	return failure
}

// noRelayWords are how Postfix, Sendmail, Exim and Exchange begin a reply that refuses the sender, or to
// relay. Their codes are those of spam, too. Further on in a reply the words are another server's.
var noRelayWords = regexp.MustCompile(`(?i)^\d{3} (5\.\d+\.\d+ )?(<[^<>]*>(:|\.\.\.) )?` +
	`(sender address rejected|relay access denied|relaying denied|relay not permitted|unable to relay)\b`)

// noMailbox is how servers say without an enhanced code that there is no such mailbox.
var noMailbox = regexp.MustCompile(`(?i)\b(no such|unknown|invalid) (user|recipient|mailbox|address)\b|` +
	`\b(user|recipient|mailbox|address) (is )?(unknown|not found|does not exist|doesn't exist)\b`)

// Gone reports whether a mail that came back went to an address that does not exist any more. status is that of the
// report, such as 5.1.1, and diagnostic what the server said. It reads both as if the server had said so at once.
func Gone(status, diagnostic, address string) bool {
	if !strings.HasPrefix(status, "5.") {
		return false
	}
	read := push.Response{Status: 550, Reason: status}
	if strings.Contains(diagnostic, tooFastWords) {
		read.Conditions = append(read.Conditions, tooFast)
	}
	if isInternational(address) {
		read.Conditions = append(read.Conditions, international)
	}
	if (status == "5.0.0" || status == "5.1.0") && noMailbox.MatchString(diagnostic) {
		read.Reason = "5.1.1"
	}
	failure := responses.Read(read)
	return failure != nil && failure.Class == push.TargetGone
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
		failure := responses.Read(push.Response{Status: reply.Code, Conditions: []string{ofConnection}})
		if failure == nil { // a reply that is no refusal, at the wrong time
			return classifyConnection(ctx, err, false)
		}
		failure.Reply = push.Reply([]byte(strconv.Itoa(reply.Code)+" "+reply.Msg), nil, secrets...)
		return failure
	}
	if code, why := untrusted(err); code != "" {
		failure := responses.Read(push.Response{Conditions: []string{noTrust}})
		failure.Code, failure.Err = code, why
		return failure
	}
	return classifyConnection(ctx, err, false)
}

// untrusted says why pacer hands no mail to a server that responds. The code is empty for another error.
func untrusted(err error) (code string, why error) {
	noLogin := errors.Is(err, gomail.ErrNoSupportedAuthDiscovered) || strings.Contains(err.Error(), "SMTP AUTH")
	certificate, ok := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case plain:
		return "plain_smtp", errors.New("the server speaks plain SMTP at this port, and smtps:// needs TLS from the first " +
			"byte: write --email-server (PACER_EMAIL_SERVER) with smtp://, which uses STARTTLS")
	case ok:
		return "certificate", fmt.Errorf("the mail server's certificate is not valid: %w", certificate.Err)
	case strings.Contains(err.Error(), "does not support STARTTLS"):
		return "no_starttls", errors.New("the mail server does not offer STARTTLS: set --email-server to smtps://… if it " +
			"has TLS from the start, or to smtp+plain://… for a server on the same machine")
	case noLogin && !isBroken(err):
		return "no_login", errors.New("the mail server offers no way to log in that is safe on this connection: use TLS, " +
			"or leave the user out of --email-server if it needs no login")
	}
	return "", nil
}

// isBroken reports whether the connection ended, or took too long, while the server was to reply: that is no refusal.
func isBroken(err error) bool {
	var broken net.Error
	return errors.As(err, &broken) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
