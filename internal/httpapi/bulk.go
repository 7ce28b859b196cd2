package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/wire"
)

type bulkInput struct {
	ContentType     string `header:"Content-Type" hidden:"true"`
	ContentEncoding string `header:"Content-Encoding" hidden:"true"`
	Results         string `query:"results" doc:"With errors, the response has results for refused items only."`
	IdempotencyKey  string `header:"Idempotency-Key" hidden:"true"`
	Promise         bool   `query:"promise" doc:"Ask when each will be delivered, for a batch of at most 1000. The results of accepted items have decision, deliver_at, reason and place."`
	RawBody         []byte
}

// BulkResponse reports what became of a batch.
type BulkResponse struct {
	Accepted int          `json:"accepted" doc:"Items that are with pacer now, repeats included."`
	Repeated int          `json:"repeated" doc:"Those of the accepted items that had been accepted before."`
	Rejected int          `json:"rejected"`
	Results  []BulkResult `json:"results"`
}

// BulkResult is what became of one item.
type BulkResult struct {
	Index    int    `json:"index" doc:"Index of the item in the batch, from 0."`
	ID       string `json:"id,omitempty"`
	Repeated bool   `json:"repeated,omitempty" doc:"The item had been accepted before."`
	Error    string `json:"error,omitempty"`
	Type     string `json:"type,omitempty" doc:"For some refusals, what kind it is: id-conflict, key-reused, too-late or overflow."`

	Decision  string     `json:"decision,omitempty" enum:"now,deferred,digest,scheduled" doc:"With promise: when it goes, in a word; digest means later, with others as one message."`
	DeliverAt *time.Time `json:"deliver_at,omitempty" doc:"With promise: when it is expected to be sent. Of one that is too-late: the earliest moment."`
	Estimate  bool       `json:"estimate,omitempty" doc:"With promise: deliver_at is only the earliest moment."`
	Reason    string     `json:"reason,omitempty" doc:"With promise: what it waits for. Of one that its category's overflow ladder ended at once: overflow."`
	Place     int        `json:"place,omitempty" doc:"With promise: its place among what waits of the user, where 1 goes next."`
}

type bulkOutput struct{ Body BulkResponse }

const (
	mediaNDJSON = "application/x-ndjson"
	mediaJSON   = "application/json"
)

func (a *api) registerBulk(h huma.API) {
	item := h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.Input](), true, "Notification")
	huma.Register(h, huma.Operation{
		OperationID: "accept-notifications", Method: http.MethodPost, Path: "/v1/notifications/bulk",
		Summary: "Accept many notifications",
		Description: fmt.Sprintf("At most %d items and %d MiB. Refused items do not affect the others.", maxBulkItems,
			maxBulkBody>>20),
		Tags: []string{"notifications"}, MaxBodyBytes: bodyUpTo(maxBulkBody),
		Errors: problems(http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
			http.StatusUnprocessableEntity),
	}, a.bulk)
	// The body is described here, since this package decodes it more strictly than the framework would.
	h.OpenAPI().Paths["/v1/notifications/bulk"].Post.RequestBody = &huma.RequestBody{
		Required: true, Content: map[string]*huma.MediaType{
			mediaNDJSON: {Schema: &huma.Schema{Type: "string", Description: "One notification object a line."}},
			mediaJSON:   {Schema: &huma.Schema{Type: "array", Items: item}},
		},
	}
}

func (a *api) bulk(ctx context.Context, in *bulkInput) (*bulkOutput, error) {
	if err := checkMedia(in.ContentType, in.ContentEncoding, mediaNDJSON, mediaJSON); err != nil {
		return nil, err
	}
	if in.IdempotencyKey != "" {
		return nil, problem(http.StatusUnprocessableEntity, "the header Idempotency-Key is for a single notification; in a "+
			"batch, give each item an id or an idempotency_key of its own")
	}
	if in.Results != "" && in.Results != "errors" && in.Results != "all" {
		return nil, problem(http.StatusUnprocessableEntity,
			"results: must be errors or all, is "+nearest.Quote(in.Results))
	}
	items, err := split(in.ContentType, in.RawBody, batchOfNotifications)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	results, err := a.acceptItems(ctx, items, in.Promise)
	if problem, ok := errors.AsType[huma.StatusError](err); ok {
		return nil, problem
	}
	if err != nil {
		return nil, a.away(ctx, "accept a batch", err)
	}
	out := &bulkOutput{Body: BulkResponse{Results: []BulkResult{}}}
	for _, result := range results {
		if result.Error == "" {
			out.Body.Accepted++
		} else {
			out.Body.Rejected++
		}
		if result.Repeated {
			out.Body.Repeated++
		}
		if result.Error != "" || in.Results != "errors" || in.Promise {
			out.Body.Results = append(out.Body.Results, result)
		}
	}
	return out, nil
}

// acceptItems decodes all items before it accepts the first.
func (a *api) acceptItems(ctx context.Context, items []json.RawMessage, promise bool) ([]BulkResult, error) {
	results := make([]BulkResult, len(items))
	var requests []intake.Request
	var indexes []int
	asks := 0
	for i, item := range items {
		results[i].Index = i
		request, err := wire.Decode(item, a.own)
		if err != nil {
			results[i].Error = itemError(err)
			continue
		}
		request.Promise = promise
		if request.Asks() {
			asks++
		}
		requests = append(requests, request)
		indexes = append(indexes, i)
	}
	if asks > intake.MaxPromises {
		return nil, problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("with ?promise=true or max_wait a batch may "+
			"have at most %d items, this one has %d; split it", intake.MaxPromises, asks))
	}
	accepted, err := a.cfg.Intake.Accept(ctx, requests)
	if err != nil {
		return nil, err
	}
	for i, result := range accepted {
		at := &results[indexes[i]]
		if result.Err != nil {
			at.Error, at.Type = itemError(result.Err), problemType(result.Err)
			if late, ok := errors.AsType[*notification.TooLateError](result.Err); ok {
				at.DeliverAt, at.Reason = optional(late.DeliverAt), late.Reason
			}
			continue
		}
		at.ID, at.Repeated = result.Notification.ID, result.Known
		if p := result.Promise; p != nil {
			at.Decision, at.DeliverAt = string(p.Decision), optional(p.DeliverAt)
			at.Reason, at.Place, at.Estimate = p.Reason, p.Place, p.Estimate
		}
		if result.Notification.Dropped {
			at.Reason = notification.ReasonOverflow
		}
	}
	return results, nil
}

func itemError(err error) string {
	if text := summary(err); text != "" {
		return text
	}
	return err.Error()
}

// batchKind says what a batch is of, and how many it may have at most.
type batchKind struct {
	most             int
	item, items, all string // as refusals call one, several, and what the whole body is
}

var (
	batchOfNotifications = batchKind{maxBulkItems, "notification", "items", "notifications"}
	batchOfPreferences   = batchKind{maxBulkPreferences, "user", "users", "users' preferences"}
)

// split takes a batch apart into its items. Where there are too many it only counts them: a small item takes many times
// its size.
func split(contentType string, body []byte, kind batchKind) (items []json.RawMessage, err error) {
	count := 0
	body = wire.TrimMark(body)
	if checkMedia(contentType, "", mediaNDJSON) == nil {
		for line := range bytes.Lines(body) {
			if line = bytes.TrimSpace(line); len(line) == 0 {
				continue
			}
			if count++; count <= kind.most {
				items = append(items, line)
			}
		}
	} else if count = countItems(body); count <= kind.most || !json.Valid(body) {
		if err := json.Unmarshal(body, &items); err != nil {
			return nil, problem(http.StatusBadRequest, notArray(err, kind.all))
		}
		count = len(items)
	}
	switch {
	case count > kind.most:
		return nil, problem(http.StatusRequestEntityTooLarge, fmt.Sprintf(
			"a batch may have at most %d %s, this one has %d; split it", kind.most, kind.items, count))
	case count == 0:
		return nil, problem(http.StatusBadRequest, "the batch is empty: send at least one "+kind.item)
	}
	return items, nil
}

// countItems counts the items of a JSON array that has some. Of anything else it says a number that means nothing, and
// of another JSON value at most 1.
func countItems(body []byte) int {
	commas, depth, inText := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inText:
			if c == '\\' {
				i++ // what it escapes may be a quotation mark
			}
			inText = c != '"'
		case c == '"':
			inText = true
		case c == '[' || c == '{':
			if depth == 0 && c == '{' {
				return 0
			}
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' && depth == 1:
			commas++
		}
	}
	return commas + 1
}

// notArray says why a body is no JSON array of things that are called many.
func notArray(err error, many string) string {
	why := "its items must be in [ ]; to send one object a line, set the Content-Type to " + mediaNDJSON
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		why = fmt.Sprintf("it is not valid JSON from byte %d on", syntax.Offset)
	}
	return "the body is not a JSON array of " + many + ": " + why
}
