package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/pacer-notify/pacer/internal/desk"
)

// filter selects notifications.
type filter struct {
	User     string   `name:"user" env:"-" placeholder:"USER" help:"Those of this user."`
	Status   []string `name:"status" env:"-" placeholder:"STATUS,..." help:"Those with one of these statuses, such as failed,expired."`
	Category string   `name:"category" env:"-" placeholder:"NAME" help:"Those of this category."`
	Channel  string   `name:"channel" env:"-" placeholder:"NAME" help:"Those of this channel."`
	Reason   string   `name:"reason" env:"-" placeholder:"TEXT" help:"Those whose reason begins so, such as permanent."`
	Host     string   `name:"host" env:"-" placeholder:"NAME" help:"Those whose target is on this host."`
	Since    string   `name:"since" env:"-" placeholder:"TIME" help:"Those accepted at this time (RFC 3339) or later, or at most so long ago, such as 2h."`
	Until    string   `name:"until" env:"-" placeholder:"TIME" help:"Those accepted before this time, or longer ago."`
	Text     string   `name:"text" env:"-" placeholder:"TEXT" help:"Those with this in title or body, in any case, or whose id begins so."`
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
	Cursor string `name:"cursor" env:"-" placeholder:"CURSOR" help:"Go on where a list ended."`
	JSON   bool   `name:"json" env:"-" help:"As JSON, for programs."`
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
		return fmt.Errorf("list notifications: %s", strings.TrimSpace(string(body)))
	}
	if c.JSON {
		_, err = to.out.Write(body)
		return err
	}
	var listing desk.Listing
	if err := json.Unmarshal(body, &listing); err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	if err := showListing(to, &listing); err != nil {
		return err
	}
	if listing.Next != "" {
		_, err = fmt.Fprintf(to.err, "There may be more: repeat the command with --cursor %s\n", listing.Next)
	}
	return err
}

// showListing writes the table to the one stream, and what there is to say about it to the other.
func showListing(to streams, listing *desk.Listing) error {
	w := tabwriter.NewWriter(to.out, 0, 0, 2, ' ', 0)
	if len(listing.Items) > 0 {
		_, _ = fmt.Fprintln(w, "ACCEPTED\tSTATUS\tUSER\tCATEGORY\tCHANNEL\tID\tREASON") // Flush tells
	}
	for i := range listing.Items {
		n := &listing.Items[i]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			clock(n.CreatedAt), n.Status, n.UserID, n.Category, n.Channel, n.ID, n.Reason)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(listing.Items) == 0 {
		_, _ = fmt.Fprintln(to.err, "None on this page.") // the table is empty whoever reads this
	}
	if listing.Note != "" {
		_, _ = fmt.Fprintln(to.err, listing.Note) // likewise
	}
	return nil
}
