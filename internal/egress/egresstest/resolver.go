// Package egresstest has a name service for tests, so that they ask no real one and can change the address of a name.
package egresstest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
)

// Numbers of the DNS protocol.
const (
	typeA    = 1
	typeAAAA = 28
	classIN  = 1

	headerSize   = 12
	flagsAnswer  = 0x8180 // an answer, recursion desired and available
	noSuchName   = 3
	questionName = 0xc000 | headerSize // a reference to the name in the question
)

// Resolver looks every name up by calling lookup with it, in lower or upper case as asked, without its last dot. No
// address means that there is no such name. Names in the machine's hosts file go past it.
func Resolver(lookup func(name string) []netip.Addr) *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go serve(server, lookup)
			return client, nil
		},
	}
}

// serve answers one question. On a connection that is not of packets each message has its length before it.
func serve(conn net.Conn, lookup func(string) []netip.Addr) {
	defer conn.Close()
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return // the resolver has given up
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return
	}
	answer := reply(query, lookup)
	_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
}

// reply builds the answer to a query that the standard library wrote, hence well-formed and with one question.
func reply(query []byte, lookup func(string) []netip.Addr) []byte {
	end, name := headerSize, ""
	for query[end] != 0 {
		next := end + 1 + int(query[end])
		name += "." + string(query[end+1:next])
		end = next
	}
	end++
	kind := binary.BigEndian.Uint16(query[end:])
	addresses := lookup(name[1:])

	flags := uint16(flagsAnswer)
	if len(addresses) == 0 {
		flags |= noSuchName
	}
	var records []byte
	count := uint16(0)
	for _, address := range addresses {
		if address.Is4() != (kind == typeA) || kind != typeA && kind != typeAAAA {
			continue
		}
		count++
		records = binary.BigEndian.AppendUint16(records, questionName)
		records = binary.BigEndian.AppendUint16(records, kind)
		records = binary.BigEndian.AppendUint16(records, classIN)
		records = binary.BigEndian.AppendUint32(records, 0) // not to be kept
		records = binary.BigEndian.AppendUint16(records, uint16(address.BitLen()/8))
		records = append(records, address.AsSlice()...)
	}
	answer := append([]byte{}, query[:2]...)
	for _, field := range []uint16{flags, 1, count, 0, 0} {
		answer = binary.BigEndian.AppendUint16(answer, field)
	}
	answer = append(answer, query[headerSize:end+4]...)
	return append(answer, records...)
}
