package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pacer-notify/pacer/internal/desk"
)

// filter selects notifications.
type filter struct {
	User     string   `name:"user" env:"-" placeholder:"USER" help:"Those of this user."`
	Status   []string `name:"status" env:"-" placeholder:"STATUS,..." help:"Those with one of these statuses, such as failed,expired."`
	Category string   `name:"category" env:"-" placeholder:"NAME" help:"Those of this category."`
	Channel  string   `name:"channel" env:"-" placeholder:"NAME" help:"Those of this channel."`
	Reason   string   `name:"reason" env:"-" placeholder:"TEXT" help:"Those whose reason begins with this, such as permanent."`
	Host     string   `name:"host" env:"-" placeholder:"NAME" help:"Those whose target is on this host."`
	Since    string   `name:"since" env:"-" placeholder:"TIME" help:"Those accepted at this time (RFC 3339) or later, or at most this long ago, such as 2h."`
	Until    string   `name:"until" env:"-" placeholder:"TIME" help:"Those accepted before this time, or longer ago than this, such as 1h."`
	Text     string   `name:"text" env:"-" placeholder:"TEXT" help:"Those with this text in title or body, ignoring case, or whose id begins with it."`
}

// query is the filter as the ops pages read it.
func (f *filter) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{
		"user": f.User, "status": strings.Join(f.Status, ","), "category": f.Category, "channel": f.Channel,
		"reason": f.Reason, "host": f.Host, "since": f.Since, "until": f.Until, "text": f.Text,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

type listCommand struct {
	opsClient
	filter
	Limit  int    `name:"limit" env:"-" default:"50" placeholder:"N" help:"How many to list, at most 1000. Default: ${default}."`
	Cursor string `name:"cursor" env:"-" placeholder:"CURSOR" help:"Continue where the previous list ended."`
	JSON   bool   `name:"json" env:"-" help:"Print JSON, for programs."`
}

// Run lists notifications.
func (c *listCommand) Run(ctx context.Context, to streams) error {
	query := c.query()
	query.Set("limit", strconv.Itoa(c.Limit))
	if c.Cursor != "" {
		query.Set("cursor", c.Cursor)
	}
	status, body, err := c.get(ctx, "/notifications?"+query.Encode())
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return refused("list notifications", status, body)
	}
	if c.JSON {
		_, err = to.out.Write(body)
		return err
	}
	var listing desk.Listing
	if err := json.Unmarshal(body, &listing); err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	return c.showListing(to, &listing)
}

// showListing writes the table to the one stream, and what there is to say about it to the other.
func (c *listCommand) showListing(to streams, listing *desk.Listing) error {
	t := table{}
	t.add("ACCEPTED", "STATUS", "USER", "CATEGORY", "CHANNEL", "REASON", "ID")
	for i := range listing.Items {
		n := &listing.Items[i]
		reason := n.Reason
		if reason == string(n.Status) {
			reason = "" // it says nothing more
		}
		t.add(second(n.CreatedAt), string(n.Status), printable(n.UserID), n.Category, n.Channel, printable(reason),
			n.ID)
	}
	if len(listing.Items) > 0 {
		if err := t.write(to.out); err != nil {
			return err
		}
	}
	var said []string
	switch {
	case len(listing.Items) == 0 && listing.Next == "" && c.Cursor == "":
		said = append(said, "No notification matches.")
	case len(listing.Items) == 0:
		said = append(said, "None on this page.")
	}
	if listing.Note != "" {
		said = append(said, listing.Note)
	}
	if listing.Next != "" {
		said = append(said, "There may be more: repeat the command with --cursor "+listing.Next)
	}
	for _, sentence := range said {
		_, _ = fmt.Fprintln(to.err, sentence) // the table is what counts
	}
	return nil
}
