package pushtest

import (
	"encoding/json"
	"reflect"
	"strings"
	"unicode"

	"github.com/pacer-notify/pacer/internal/push"
)

// contentCases send contents of all sizes and kinds. Each delivery checks that its content arrives unchanged.
func contentCases(f Features) []scenario {
	cases := []scenario{
		{"NoContent", func(p *probe) {
			m := p.message()
			m.Title, m.Body, m.Data = "", "", nil
			if !p.NeedsText {
				p.carry(m)
				return
			}
			if p.sender.CheckContent(m.Notification) == nil {
				p.Errorf("a notification without a text is accepted")
			}
			p.wantUnsent(p.send(p.Context(), m), push.Permanent)
			p.wantCalls(0)
		}},
		{"UnknownContent", unknownContent},
		{"AwkwardCharacters", awkwardCharacters},
		{"LargestContent", func(p *probe) {
			m := p.message()
			m.Title, m.Data = strings.Repeat("t", 100), json.RawMessage(`{"key": "value"}`)
			m.Body = strings.Repeat("b", f.maxContent()-len(m.Title)-len(m.Data))
			p.carry(m)
		}},
	}
	if f.maxContent() < f.Channel.MostContent() {
		cases = append(cases, scenario{"LargerThanThat", func(p *probe) {
			m := p.message()
			m.Title, m.Data = "", nil
			m.Body = strings.Repeat("b", f.Channel.MostContent())
			p.wantUnsent(p.send(p.Context(), m), push.Permanent)
			p.wantCalls(0)
		}})
	}
	return cases
}

// unknownContent sends data that means nothing to any channel, and a notification with hardly more than its id.
func unknownContent(p *probe) {
	for _, data := range []string{
		`{}`, ` { "": null } `,
		`{"unknown": {"nested": [1, 2.5e300, true, null, {"deep": "ü"}]}}`,
	} {
		m := p.message()
		m.Data = json.RawMessage(data)
		p.carry(m)
	}
	m := p.message()
	m.Title, m.Body, m.Data, m.UserID, m.Category, m.Priority = "", "", json.RawMessage{}, "u", "never heard of", 0
	if p.NeedsText {
		m.Body = "b"
	}
	m.Attempt, m.AdmittedAt, m.CreatedAt = 0, m.AdmittedAt.AddDate(-1000, 0, 0), m.CreatedAt.AddDate(-1000, 0, 0)
	p.carry(m)
}

// awkwardCharacters sends characters that would end a header, a string or an element if they were not escaped.
func awkwardCharacters(p *probe) {
	for _, text := range []string{
		`"quotes' \back\slash\" %s %20 $1 {{.}}`, "<script>&amp;</script><![CDATA[", "ü 漢字 👩‍👩‍👧 \u202e\u2028",
		"line\r\nBcc: eve@example.com\r\n\r\n.\r\n", "\x00\x1b[31m\t\x7f",
	} {
		m := p.message()
		m.Title, m.Body = "T"+text+"T", "B"+text+"B"
		p.carry(m)
	}
}

// carry delivers a message, and checks that all of it arrives.
func (p *probe) carry(m push.Message) {
	p.Helper()
	before := len(p.provider.received())
	p.deliver(m)
	calls := p.provider.received()
	if len(calls) != before+1 {
		p.Fatalf("%d calls, want 1", len(calls)-before)
	}
	p.same(calls[before], m)
}

// same compares a call with its message.
func (p *probe) same(c Call, m push.Message) {
	p.Helper()
	if c.Identity != p.Identity(m.ID) {
		p.Errorf("the call's identity is %q, want %q", c.Identity, p.Identity(m.ID))
	}
	if p.Content && (plain(c.Title) != plain(m.Title) || plain(c.Body) != plain(m.Body)) {
		p.Errorf("the call for %s has the title %.80q and the body %.80q (%d bytes), want %.80q and %.80q (%d bytes)",
			m.ID, c.Title, c.Body, len(c.Body), m.Title, m.Body, len(m.Body))
	}
	if p.Data && !reflect.DeepEqual(object(c.Data), object(m.Data)) {
		p.Errorf("the call for %s has the data %.80q, want %.80q", m.ID, c.Data, m.Data)
	}
}

// plain removes control characters, which some channels can't carry.
func plain(text string) string {
	return strings.Join(strings.FieldsFunc(text, unicode.IsControl), " ")
}

// object reads data. No data is an object without fields.
func object(data []byte) map[string]any {
	fields := map[string]any{}
	if len(data) > 0 && json.Unmarshal(data, &fields) != nil {
		return map[string]any{"unreadable": string(data)}
	}
	if fields == nil {
		fields = map[string]any{}
	}
	return fields
}
