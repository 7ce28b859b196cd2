//go:build faults

package faults_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsScenarios are what name servers do.
func dnsScenarios() []*scenario {
	var names *nameServer
	var before *link
	prepare := func(d *deployment) {
		d.receiver.server.Config.SetKeepAlivesEnabled(false) // each delivery asks for the address
		upstream := d.receiver.server.Listener.Addr().String()
		before = d.link(upstream)
		_, port, _ := strings.Cut(before.addr(), ":")
		d.linkAt("127.0.0.2:"+port, upstream)
		names = d.nameServer()
		d.env = append(d.env, "FAULTS_RESOLVER="+names.listener.Addr().String())
		d.target = "http://hooks.example.com:" + port
	}
	return []*scenario{
		{
			name: "DNSFails", fault: "the name server returns SERVFAIL, 3 s", without: retrying, prepare: prepare,
			inject: func(*deployment) {
				names.answer(dnsmessage.RCodeServerFailure, netip.Addr{})
				<-time.After(3 * time.Second)
				names.answer(dnsmessage.RCodeSuccess, netip.MustParseAddr("127.0.0.1"))
			},
		},
		{
			name: "DNSUnknown", fault: "the name server knows no such name (NXDOMAIN), 3 s", without: retrying,
			prepare: prepare,
			inject: func(*deployment) {
				names.answer(dnsmessage.RCodeNameError, netip.Addr{})
				<-time.After(3 * time.Second)
				names.answer(dnsmessage.RCodeSuccess, netip.MustParseAddr("127.0.0.1"))
			},
		},
		{
			name: "DNSChanges", fault: "the provider moves to another address", prepare: prepare, perAttempt: true,
			without: protection{name: "the address is asked for at each connection", mutations: "dns-once"},
			inject: func(*deployment) {
				names.answer(dnsmessage.RCodeSuccess, netip.MustParseAddr("127.0.0.2"))
				before.proxy.Stop()
			},
		},
	}
}

// nameServer answers every question in the same way, over TCP.
type nameServer struct {
	listener net.Listener

	mu   sync.Mutex
	code dnsmessage.RCode
	addr netip.Addr
}

func (d *deployment) nameServer() *nameServer {
	l, err := (&net.ListenConfig{}).Listen(d.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		d.fail("%v", err)
	}
	n := &nameServer{listener: l, addr: netip.MustParseAddr("127.0.0.1")}
	d.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go n.serve(conn)
		}
	}()
	return n
}

// answer changes what is answered from now on.
func (n *nameServer) answer(code dnsmessage.RCode, addr netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.code, n.addr = code, addr
}

// serve answers the questions of a connection; one that can't be read ends it.
func (n *nameServer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for {
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, question); err != nil {
			return
		}
		reply, err := n.reply(question)
		if err != nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}

func (n *nameServer) reply(question []byte) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var asked dnsmessage.Message
	if err := asked.Unpack(question); err != nil {
		return nil, err
	}
	reply := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: asked.ID, Response: true, RecursionAvailable: true, RCode: n.code},
		Questions: asked.Questions,
	}
	if q := asked.Questions[0]; n.code == dnsmessage.RCodeSuccess && q.Type == dnsmessage.TypeA {
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
			Body:   &dnsmessage.AResource{A: n.addr.As4()},
		}}
	}
	return reply.Pack()
}
