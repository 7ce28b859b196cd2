package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// Measures of the picture, in its own units.
const (
	width      = 940
	margin     = 20
	lineHeight = 19
	firstLine  = 66
	rowHeight  = 30
	axisLeft   = 90
	axisWidth  = width - axisLeft - 2*margin
)

// loopLength is how long the animation takes before it begins again: what it shows, and a while to read it.
const loopLength = demoLength + 4500*time.Millisecond

// style of the picture. Who prefers less motion sees all of it at once.
const style = `text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}
.dim{fill:#8b949e}.accept{fill:#79c0ff}.arrive{fill:#7ee787}.stats{fill:#d2a8ff}.prompt{fill:#ffa657}
.asked{fill:none;stroke:#79c0ff;stroke-width:1.6}.got{fill:#7ee787}
.axis{stroke:#30363d}.now{stroke:#ffa657;stroke-width:1.2}
@media (prefers-reduced-motion:reduce){.e,.now{animation:none!important}.now{display:none}}
`

// animation draws the events: the terminal above, and below it one row per user, with a ring where something was
// accepted and a dot where something arrived.
func animation(events []event) string {
	users := usersOf(events)
	top := firstLine + lineHeight*len(events) + 16 // of the rows
	height := top + rowHeight*len(users) + 60
	var css, body strings.Builder
	appear := func(at time.Duration) string {
		name := fmt.Sprintf("t%d", at.Milliseconds())
		if !strings.Contains(css.String(), "@keyframes "+name+"{") {
			share := 100 * at.Seconds() / loopLength.Seconds()
			fmt.Fprintf(&css, "@keyframes %s{0%%,%.2f%%{opacity:0}%.2f%%,100%%{opacity:1}}\n", name, share, share+0.3)
		}
		return fmt.Sprintf(`class="e" style="animation:%s %.1fs linear infinite"`, name, loopLength.Seconds())
	}
	drawLines(&body, events, appear)
	drawRows(&body, users, top)
	for _, e := range events {
		drawMark(&body, e, users, top, appear)
	}
	fmt.Fprintf(&css, "@keyframes now{0%%{transform:translateX(0)}%.2f%%,100%%{transform:translateX(%dpx)}}\n",
		100*demoLength.Seconds()/loopLength.Seconds(), axisWidth)
	fmt.Fprintf(&body, `<line class="now" x1="%d" x2="%[1]d" y1="%d" y2="%d" style="animation:now %.1fs linear infinite"/>`+"\n",
		axisLeft, top, top+rowHeight*len(users), loopLength.Seconds())
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="dispatcher demo: %s">
<title>dispatcher demo</title>
<style>%s%s</style>
<rect width="%d" height="%d" rx="10" fill="#0d1117"/>
<circle cx="24" cy="22" r="6" fill="#ff5f57"/><circle cx="44" cy="22" r="6" fill="#febc2e"/>
<circle cx="64" cy="22" r="6" fill="#28c840"/>
<text x="%d" y="%d"><tspan class="prompt">$</tspan> dispatcher demo</text>
%s</svg>
`, width, height, "notifications are accepted in bursts and arrive as far apart as the policy asks", style, css.String(), width, height,
		margin, firstLine-lineHeight, body.String())
}

// usersOf returns the users in the order in which they turn up.
func usersOf(events []event) []string {
	var users []string
	for _, e := range events {
		if e.user != "" && !slices.Contains(users, e.user) {
			users = append(users, e.user)
		}
	}
	return users
}

// drawLines draws the commentary, each line at its moment.
func drawLines(to *strings.Builder, events []event, appear func(time.Duration) string) {
	for i, e := range events {
		fmt.Fprintf(to, `<g %s><text x="%d" y="%d"><tspan class="dim">%7.3f</tspan>  <tspan class="%s">%-6s</tspan>  %s</text></g>`+"\n",
			appear(e.at), margin, firstLine+lineHeight*i, e.at.Seconds(), e.kind, e.kind, html.EscapeString(e.text))
	}
}

// drawRows draws the axis, a row per user, and the legend.
func drawRows(to *strings.Builder, users []string, top int) {
	for i, user := range users {
		y := top + rowHeight*i + rowHeight/2
		fmt.Fprintf(to, `<text x="%d" y="%d">%s</text><line class="axis" x1="%d" x2="%d" y1="%d" y2="%[6]d"/>`+"\n",
			margin, y+4, html.EscapeString(user), axisLeft, axisLeft+axisWidth, y)
	}
	bottom := top + rowHeight*len(users)
	for at := time.Duration(0); at <= demoLength; at += 3 * time.Second {
		fmt.Fprintf(to, `<text class="dim" x="%d" y="%d" text-anchor="middle">%.0f s</text>`+"\n", axisAt(at),
			bottom+16, at.Seconds())
	}
	fmt.Fprintf(to, `<circle class="asked" cx="%d" cy="%d" r="6"/><text class="dim" x="%d" y="%d">accepted</text>`+"\n",
		axisLeft+6, bottom+38, axisLeft+20, bottom+42)
	fmt.Fprintf(to, `<circle class="got" cx="%d" cy="%d" r="5"/><text class="dim" x="%d" y="%d">delivered</text>`+"\n",
		axisLeft+116, bottom+38, axisLeft+128, bottom+42)
}

// drawMark draws an event into its user's row.
func drawMark(to *strings.Builder, e event, users []string, top int, appear func(time.Duration) string) {
	row := slices.Index(users, e.user)
	if row < 0 {
		return
	}
	class, radius := "got", 5
	if e.kind == "accept" {
		class, radius = "asked", 9
	}
	fmt.Fprintf(to, `<g %s><circle class="%s" cx="%d" cy="%d" r="%d"/></g>`+"\n",
		appear(e.at), class, axisAt(e.at), top+rowHeight*row+rowHeight/2, radius)
}

// axisAt is where a moment stands.
func axisAt(at time.Duration) int {
	return axisLeft + int(at.Seconds()/demoLength.Seconds()*axisWidth)
}
