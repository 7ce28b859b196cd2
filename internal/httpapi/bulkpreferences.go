package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/wire"
)

const (
	// maxBulkPreferences is how many users a batch of preferences may have, and maxBulkPreferencesBody how many bytes.
	maxBulkPreferences, maxBulkPreferencesBody = 1000, 4 << 20
	// preferencesAtOnce are written together. After each such part a process waits for preferencesPause, whoever sent
	// them: a job that changes every user must not have all agendas decided again at the same time.
	preferencesAtOnce, preferencesPause = 100, 50 * time.Millisecond
)

// PreferencesOfUser are the preferences of one user in a batch.
type PreferencesOfUser struct {
	UserID string `json:"user_id"`
	Preferences
}

// BulkPreferencesResponse reports what became of a batch of preferences.
type BulkPreferencesResponse struct {
	Accepted int                     `json:"accepted" doc:"Users whose preferences are now as the batch says."`
	Rejected int                     `json:"rejected"`
	Results  []BulkPreferencesResult `json:"results" doc:"One for each refused item."`
}

// BulkPreferencesResult is what is wrong with one item.
type BulkPreferencesResult struct {
	Index  int    `json:"index" doc:"Index of the item in the batch, from 0."`
	UserID string `json:"user_id,omitempty"`
	Error  string `json:"error"`
}

type bulkPreferencesInput struct {
	ContentType     string `header:"Content-Type" hidden:"true"`
	ContentEncoding string `header:"Content-Encoding" hidden:"true"`
	RawBody         []byte
}

type bulkPreferencesOutput struct{ Body BulkPreferencesResponse }

func (a preferenceAPI) registerBulkPreferences(h huma.API) {
	const path = "/v1/preferences/bulk"
	item := h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[PreferencesOfUser](), true, "PreferencesOfUser")
	a.validate = validator(h.OpenAPI().Components.Schemas, item)
	huma.Register(h, huma.Operation{
		OperationID: "put-many-preferences", Method: http.MethodPost, Path: path,
		Summary: "Replace the preferences of many users",
		Description: fmt.Sprintf("At most %d users and %d MiB. Refused items do not affect the others; of two for one user the "+
			"later holds. A process takes some %d users a second. After an error, send the batch again: what is as it says "+
			"already stays.", maxBulkPreferences, maxBulkPreferencesBody>>20,
			preferencesAtOnce*int(time.Second/preferencesPause)),
		Tags: []string{"users"}, MaxBodyBytes: bodyUpTo(maxBulkPreferencesBody),
		Errors: problems(http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType),
	}, a.bulkPreferences)
	// The body is described here, since this package decodes it more strictly than the framework would.
	h.OpenAPI().Paths[path].Post.RequestBody = &huma.RequestBody{
		Required: true, Content: map[string]*huma.MediaType{
			mediaNDJSON: {Schema: &huma.Schema{Type: "string", Description: "One user's preferences a line."}},
			mediaJSON:   {Schema: &huma.Schema{Type: "array", Items: item}},
		},
	}
}

func (a preferenceAPI) bulkPreferences(ctx context.Context, in *bulkPreferencesInput) (*bulkPreferencesOutput, error) {
	if err := checkMedia(in.ContentType, in.ContentEncoding, mediaNDJSON, mediaJSON); err != nil {
		return nil, err
	}
	items, err := split(in.ContentType, in.RawBody, batchOfPreferences)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, bulkTimeout)
	defer cancel()
	out := &bulkPreferencesOutput{Body: BulkPreferencesResponse{Results: []BulkPreferencesResult{}}}
	wanted, users := map[string]*notification.Preferences{}, []string{}
	for i, item := range items {
		userID, p, err := a.readUserPreferences(item)
		if err != nil {
			refused := BulkPreferencesResult{Index: i, UserID: userID, Error: itemError(err)}
			out.Body.Results = append(out.Body.Results, refused)
			continue
		}
		if wanted[userID] == nil {
			users = append(users, userID)
		}
		wanted[userID] = p
	}
	if err := a.setManyPreferences(ctx, users, wanted); err != nil {
		return nil, a.away(ctx, "write users' preferences", err)
	}
	out.Body.Rejected = len(out.Body.Results)
	out.Body.Accepted = len(items) - out.Body.Rejected
	return out, nil
}

// readUserPreferences reads and checks an item of a batch.
func (a preferenceAPI) readUserPreferences(item json.RawMessage) (string, *notification.Preferences, error) {
	var document any
	var of PreferencesOfUser
	err := wire.Unmarshal(item, &document)
	if err == nil {
		err = a.validate(document)
	}
	if err == nil {
		err = wire.Unmarshal(item, &of)
	}
	if err != nil {
		return "", nil, err
	}
	p, err := of.parse()
	if err := errors.Join(notification.CheckUserID(of.UserID), err); err != nil {
		return of.UserID, nil, err
	}
	return of.UserID, p, a.cfg.Users.CheckPreferences(p)
}

// setManyPreferences writes preferences, some at a time. Batches take turns.
func (a preferenceAPI) setManyPreferences(
	ctx context.Context, users []string, wanted map[string]*notification.Preferences,
) error {
	for some := range slices.Chunk(users, preferencesAtOnce) {
		select {
		case a.preferencesTurn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		part := make(map[string]*notification.Preferences, len(some))
		for _, userID := range some {
			part[userID] = wanted[userID]
		}
		err := a.cfg.Users.SetManyPreferences(ctx, part)
		select {
		case <-time.After(preferencesPause):
		case <-ctx.Done():
		}
		<-a.preferencesTurn
		if err != nil {
			return err
		}
	}
	return nil
}
