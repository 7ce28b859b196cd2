package providertest

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// SMTPConfig says how a mail server is reached.
type SMTPConfig struct {
	// Plain is without STARTTLS.
	Plain bool
	// NoLogin offers no AUTH. Otherwise every user and password is right, unless a rule says something else.
	NoLogin bool
}

// SMTP is a provider over SMTP: a mail server.
type SMTP struct {
	*Provider
	cfg      SMTPConfig
	listener net.Listener
	served   sync.WaitGroup

	openMu sync.Mutex
	open   map[net.Conn]struct{}
}

// StartSMTP starts a mail server. It ends with the test.
func StartSMTP(tb testing.TB, cfg SMTPConfig, script ...Rule) *SMTP {
	tb.Helper()
	s := &SMTP{
		Provider: newProvider(script), cfg: cfg, listener: listen(tb, "127.0.0.1:0"),
		open: map[net.Conn]struct{}{},
	}
	s.served.Go(s.serve)
	tb.Cleanup(func() {
		close(s.over)
		s.Unplug()
		s.served.Wait()
	})
	return s
}

// Address is where it listens.
func (s *SMTP) Address() string { return s.listener.Addr().String() }

// Unplug ends the listener and all connections.
func (s *SMTP) Unplug() {
	_ = s.listener.Close()
	s.openMu.Lock()
	defer s.openMu.Unlock()
	for conn := range s.open {
		_ = conn.Close()
	}
}

// serve takes connections until the listener ends.
func (s *SMTP) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.openMu.Lock()
		s.open[conn] = struct{}{}
		s.openMu.Unlock()
		s.served.Go(func() {
			dialogue := &dialogue{server: s, conn: conn, lines: bufio.NewReader(conn)}
			dialogue.run()
			_ = dialogue.conn.Close()
			s.openMu.Lock()
			delete(s.open, conn)
			s.openMu.Unlock()
		})
	}
}

// dialogue is one connection.
type dialogue struct {
	server  *SMTP
	conn    net.Conn
	lines   *bufio.Reader
	secured bool
	// begun is true between MAIL and the end of the content, to is the recipient.
	begun bool
	to    string
}

func (d *dialogue) run() {
	if !d.reply(Call{Step: Connected}, 220, "mail.example.com ESMTP") {
		return
	}
	for {
		line, err := d.lines.ReadString('\n')
		if err != nil {
			return
		}
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !d.command(strings.ToUpper(verb), rest) {
			return
		}
	}
}

// command responds to one command. It is false at the end of the connection.
func (d *dialogue) command(verb, rest string) bool {
	switch verb {
	case "EHLO", "HELO":
		return d.say(d.extensions())
	case "STARTTLS":
		return !d.server.cfg.Plain && d.say("220 2.0.0 go on") && d.secure()
	case "AUTH":
		return d.login(rest)
	case "MAIL":
		if d.begun {
			return d.say("503 5.5.1 nested MAIL command")
		}
		reply := d.server.respond(Call{Step: Begun, Target: address(rest)})
		d.begun = reply.Status == 0
		return d.send(reply, 250, "2.1.0 ok")
	case "RCPT":
		d.to = address(rest)
		return d.reply(Call{Target: d.to}, 250, "2.1.5 ok")
	case "DATA":
		return d.data()
	case "RSET":
		d.begun = false
	case "QUIT":
		_ = d.say("221 2.0.0 bye")
		return false
	case "NOOP":
	default:
		return d.say("502 5.5.2 unknown command")
	}
	return d.say("250 2.0.0 ok")
}

// extensions is the reply to EHLO.
func (d *dialogue) extensions() string {
	all := []string{"mail.example.com", "8BITMIME", "ENHANCEDSTATUSCODES"}
	if !d.server.cfg.Plain && !d.secured {
		all = append(all, "STARTTLS")
	}
	if !d.server.cfg.NoLogin {
		all = append(all, "AUTH PLAIN")
	}
	last := len(all) - 1
	return "250-" + strings.Join(all[:last], "\r\n250-") + "\r\n250 " + all[last]
}

// secure begins TLS.
func (d *dialogue) secure() bool {
	conn := tls.Server(d.conn, &tls.Config{
		Certificates: []tls.Certificate{certificate()}, MinVersion: tls.VersionTLS12,
	})
	if conn.Handshake() != nil { //nolint:noctx // the connection is closed with the test
		return false
	}
	d.conn, d.lines, d.secured = conn, bufio.NewReader(conn), true
	return true
}

// login reads a user and a password in one line, as AUTH PLAIN has them.
func (d *dialogue) login(rest string) bool {
	_, encoded, _ := strings.Cut(rest, " ")
	text, _ := base64.StdEncoding.DecodeString(encoded) // of nonsense, the user is ""
	user := ""
	if parts := bytes.Split(text, []byte{0}); len(parts) == 3 {
		user = string(parts[1])
	}
	return d.reply(Call{Step: LoggedIn, Target: user}, 235, "2.7.0 ok")
}

// data reads the content, if the script accepts it. Where it refuses DATA itself, the mail stays begun.
func (d *dialogue) data() bool {
	announced := d.server.respond(Call{Step: Announced, Target: d.to})
	if announced.Status != 0 || announced.End != Keeps {
		return d.send(announced, 354, "")
	}
	if !d.say("354 go on") {
		return false
	}
	var content []byte
	for {
		line, err := d.lines.ReadBytes('\n')
		if err != nil {
			return false
		}
		if string(line) == ".\r\n" {
			break
		}
		content = append(content, bytes.TrimPrefix(line, []byte("."))...)
	}
	d.begun = false
	return d.reply(Call{Step: Sent, Target: d.to, Body: content}, 250, "2.0.0 taken")
}

// reply notes a call and responds to it; with code and words where the script accepts it.
func (d *dialogue) reply(c Call, code int, words string) bool {
	return d.send(d.server.respond(c), code, words)
}

// send sends a reply. It is false at the end of the connection.
func (d *dialogue) send(r Reply, code int, words string) bool {
	if !d.server.wait(r.Wait, nil) {
		return false
	}
	text := fmt.Sprintf("%d %s", cmp.Or(r.Status, code), cmp.Or(r.Body, words))
	switch r.End {
	case Keeps:
		return d.say(text) && r.Status != 421 // RFC 5321: with it the server closes the connection
	case Leaves:
		_ = d.say(text)
	case Drips:
		d.drip(text)
	case Hangs, Aborts, HangsUp, Resets, HalfCloses, GoesAway:
		if end(d.conn, r.End) {
			_, _ = io.Copy(io.Discard, d.lines) // until the caller hangs up, or the test ends
		}
	}
	return false
}

// drip says something without an end.
func (d *dialogue) drip(text string) {
	for d.server.wait(dripEvery, nil) {
		if _, err := io.WriteString(d.conn, text); err != nil {
			return
		}
		text = "."
	}
}

func (d *dialogue) say(text string) bool {
	_, err := io.WriteString(d.conn, text+"\r\n")
	return err == nil
}

// address reads FROM:<a@b> or TO:<a@b>, with further words after it.
func address(rest string) string {
	_, rest, _ = strings.Cut(rest, "<")
	name, _, _ := strings.Cut(rest, ">")
	return name
}
