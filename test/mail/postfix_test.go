package mail_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"net/smtp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pacer-notify/pacer/test/processtest"
)

// patience is how long anything may take on a busy machine.
const patience = time.Minute

// postfix is a mail server for example.com, with the user ada@example.com. What comes to bounces.example.com goes
// through a pipe to a program.
type postfix struct {
	t    *testing.T
	dir  string
	addr string
	log  string
	// roots is a file with the certificate that vouches for it.
	roots string
}

// mainConfig is Postfix's main.cf in a folder.
const mainConfig = `compatibility_level = 3.5
queue_directory = DIR/queue
data_directory = DIR/data
maillog_file = /dev/stdout
myhostname = mail.example.com
mydestination =
alias_maps =
alias_database =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
default_transport = error:no mail leaves this test
relay_transport = error:no mail leaves this test
virtual_mailbox_domains = example.com
virtual_mailbox_base = DIR/mail
virtual_mailbox_maps = inline:{ ada@example.com=ada/ }
virtual_uid_maps = static:65534
virtual_gid_maps = static:65534
# An unknown address is accepted and returned later, as behind a relay.
smtpd_reject_unlisted_recipient = no
smtpd_relay_restrictions = permit_mynetworks, reject
smtpd_tls_cert_file = DIR/conf/cert.pem
smtpd_tls_key_file = DIR/conf/key.pem
smtpd_tls_security_level = encrypt
smtpd_tls_received_header = yes
relay_domains = bounces.example.com
transport_maps = inline:{ bounces.example.com=pacer: }
pacer_destination_recipient_limit = 1
notify_classes =
# What is returned may be faster than the note that it went out.
minimal_backoff_time = 1s
maximal_backoff_time = 2s
queue_run_delay = 1s
`

// masterConfig is its master.cf for an address and the program that reads what came back.
const masterConfig = `%s inet n - n - - smtpd
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
tlsmgr unix - - n 1000? 1 tlsmgr
proxymap unix - - n - - proxymap
anvil unix - - n - 1 anvil
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
postlog unix-dgram n - n - 1 postlogd
pacer unix - n n - - pipe user=nobody argv=%s
`

// startPostfix starts a server that hands what comes back to a program with arguments.
func startPostfix(t *testing.T, returned ...string) *postfix {
	t.Helper()
	if _, err := os.Stat(program("postfix")); err != nil {
		t.Fatal("this test starts Postfix, which is not here: run make install-servers, or apt-get install postfix")
	}
	dir, err := os.MkdirTemp("", "pacer-postfix-")
	if err != nil {
		t.Fatal(err)
	}
	p := &postfix{t: t, dir: dir, log: filepath.Join(dir, "log"), roots: filepath.Join(dir, "conf", "cert.pem")}
	t.Cleanup(func() { p.asRoot("rm", "-rf", dir) })
	for _, folder := range []string{"", "conf", "queue", "mail", "data"} {
		p.check(os.MkdirAll(filepath.Join(dir, folder), 0o700))
		p.check(os.Chmod(filepath.Join(dir, folder), 0o755))
	}
	p.certify()
	p.asRoot("chown", "nobody", filepath.Join(dir, "mail"))
	p.asRoot("chown", "postfix", filepath.Join(dir, "data"))
	port, err := processtest.FreePort()
	p.check(err)
	p.addr = processtest.Addr(port)
	p.write("main.cf", strings.ReplaceAll(mainConfig, "DIR", dir))
	p.write("master.cf", fmt.Sprintf(masterConfig, p.addr, strings.Join(returned, " ")))
	p.asRoot("chown", "-R", "root", filepath.Join(dir, "conf"), filepath.Join(dir, "queue"))
	p.asRoot(program("postfix"), "-c", filepath.Join(dir, "conf"), "check")
	p.serve()
	return p
}

// certify writes a certificate for 127.0.0.1 and its key.
func (p *postfix) certify() {
	server := httptest.NewTLSServer(nil) // for its certificate
	server.Close()
	certificate := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	p.check(err)
	p.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})))
	p.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}

// serve runs Postfix's master until the test is over, or gone: it ends with its standard input.
func (p *postfix) serve() {
	p.t.Helper()
	conf := filepath.Join(p.dir, "conf")
	daemons := strings.TrimSpace(p.asRoot(program("postconf"), "-c", conf, "-h", "daemon_directory"))
	script := fmt.Sprintf(`%s/master -c %s -s & master=$!; cat >/dev/null; kill $master; wait`, daemons, conf)
	command := rootCommand(context.Background(), p.t, "sh", "-c", script)
	stdin, err := command.StdinPipe()
	p.check(err)
	log, err := os.Create(p.log)
	p.check(err)
	command.Stdout, command.Stderr = log, log
	p.check(command.Start())
	p.t.Cleanup(func() {
		_ = stdin.Close()
		_ = command.Wait() // it is killed: how it ends says nothing
		_ = log.Close()
		if p.t.Failed() {
			p.t.Logf("Postfix says:\n%s", p.said())
		}
	})
	p.await("greeting", func() bool {
		client, err := smtp.Dial(p.addr)
		if err != nil {
			return false
		}
		defer client.Close()
		return client.StartTLS(&tls.Config{InsecureSkipVerify: true}) == nil
	})
}

// said is what Postfix has logged.
func (p *postfix) said() string {
	text, err := os.ReadFile(p.log)
	p.check(err)
	return string(text)
}

// delivered waits for so many messages of ada and gives them.
func (p *postfix) delivered(n int) (messages []string) {
	p.t.Helper()
	folder := filepath.Join(p.dir, "mail", "ada", "new")
	p.await("mail", func() bool {
		messages = nil
		names := strings.Fields(p.asRoot("sh", "-c", "ls "+folder+" 2>/dev/null || true"))
		for _, name := range names {
			messages = append(messages, p.asRoot("cat", filepath.Join(folder, name)))
		}
		return len(names) >= n
	})
	return messages
}

// await waits until something is so.
func (p *postfix) await(what string, so func() bool) { p.t.Helper(); await(p.t, what, so) }

func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !so(); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after %s", what, patience)
		}
	}
}

func (p *postfix) write(name, text string) {
	p.t.Helper()
	p.check(os.WriteFile(filepath.Join(p.dir, "conf", name), []byte(text), 0o644))
}

func (p *postfix) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// asRoot runs a program as root and gives what it writes.
func (p *postfix) asRoot(name string, args ...string) string {
	p.t.Helper()
	command := rootCommand(context.Background(), p.t, name, args...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		p.t.Fatalf("%s %v: %v: %s", name, args, err, said.String())
	}
	return string(out)
}

// rootCommand is a command that runs as root, since Postfix changes users. Who is not root needs sudo without a
// password, as the runners of continuous integration have it.
func rootCommand(ctx context.Context, t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() == 0 {
		return exec.CommandContext(ctx, name, args...)
	}
	if err := exec.CommandContext(ctx, "sudo", "-n", "true").Run(); err != nil {
		t.Fatalf("Postfix runs as root only: run this test as root, or allow sudo without a password (%v)", err)
	}
	return exec.CommandContext(ctx, "sudo", append([]string{"-n", name}, args...)...)
}

// program finds a program that Debian keeps away from the PATH of users.
func program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	return filepath.Join("/usr/sbin", name)
}
