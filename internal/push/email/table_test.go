package email_test

import (
	"fmt"
	"net/mail"
	"strings"
	"testing"

	"github.com/emersion/go-smtp"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/email"
	"github.com/pacer-notify/pacer/internal/push/pushtest"
)

func TestTable(t *testing.T) {
	t.Parallel()
	pushtest.Table(t, email.Settings{}.Channel().Responses, func(t *testing.T, row push.Row) error {
		t.Helper()
		s := startServer(t, func(*smtp.Conn, *mail.Message) error { return nil })
		cfg := s.settings(t)
		refuse := func() error { return refusal(t, row) }
		switch {
		case row.Status == 2:
		case row.Status == 0:
			cfg.Roots = nil
		case strings.HasPrefix(row.If, "when connecting"):
			s.greet = refuse
		case strings.HasPrefix(row.If, "of the sender"):
			s.mail = refuse
		default:
			s.rcpt = func(string) error { return refuse() }
		}
		return newSender(t, cfg).Send(t.Context(), message())
	})
}

// refusal is a reply as the row says.
func refusal(t *testing.T, row push.Row) error {
	t.Helper()
	reply := &smtp.SMTPError{Code: row.Status, Message: "no"}
	if row.Status < 100 {
		reply.Code = 100*row.Status + 50
	}
	reply.EnhancedCode = smtp.EnhancedCode{reply.Code / 100, 9, 9}
	if row.Reason != "" {
		e := &reply.EnhancedCode
		if _, err := fmt.Sscanf(row.Reason, "%d.%d.%d", &e[0], &e[1], &e[2]); err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasPrefix(row.If, "the mailbox receives") {
		reply.Message = "The user you are trying to contact is receiving mail at a rate that prevents additional messages"
	}
	return reply
}
