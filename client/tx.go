package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pacer-notify/pacer/internal/intake"
	"github.com/pacer-notify/pacer/internal/notification"
	"github.com/pacer-notify/pacer/internal/wire"
)

// Tx is a pgx transaction or connection.
type Tx interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// EnqueueTx enqueues a notification if and only if the transaction commits, and returns its id. The transaction must be
// in the database of pacer's store. pacer finds the notification within a second of the commit.
//
// An [*Error] with status 422 says what is wrong with the notification, and an [ErrConflict] that its id was accepted
// with other content. The transaction goes on after either: nothing was written. What only the deployment knows shows
// later: with a category that the policy does not name, a channel that is not configured, or a target or content that
// the channel does not take, the notification ends as failed, with a reason that names the field. EnqueueTx knows
// neither templates nor idempotency keys; use an id.
func EnqueueTx(ctx context.Context, tx Tx, n Notification) (id string, err error) {
	body, err := checkForTx(n)
	if err != nil {
		return "", fmt.Errorf("enqueue a notification: %w", err)
	}
	var repeated bool
	var faults, differs []string
	err = tx.QueryRow(ctx, "SELECT coalesce(id, ''), repeated, faults, differs FROM pacer.try_enqueue($1)", body).Scan(
		&id, &repeated, &faults, &differs)
	if err == nil {
		err = refusedInTx(id, faults, differs)
	}
	if err != nil {
		return "", fmt.Errorf("enqueue a notification: %w", err)
	}
	return id, nil
}

// refusedInTx is why pacer.try_enqueue did not accept a notification; nil when it did.
func refusedInTx(id string, faults, differs []string) error {
	switch {
	case len(faults) > 0:
		e := unprocessable(strings.Join(faults, "; "))
		for _, fault := range faults {
			field, message, _ := strings.Cut(fault, ": ")
			e.Fields = append(e.Fields, FieldError{Field: field, Message: message})
		}
		return e
	case len(differs) > 0:
		e := &Error{
			Status: http.StatusConflict, Title: http.StatusText(http.StatusConflict), Type: typeConflict,
			Detail: (&notification.ConflictError{ID: id, Fields: differs}).Error(),
		}
		for _, field := range differs {
			e.Fields = append(e.Fields, FieldError{
				Field: field, Message: "differs from what was accepted under this id",
			})
		}
		return e
	}
	return nil
}

// checkForTx encodes a notification, and refuses what can be refused without the deployment.
func checkForTx(n Notification) ([]byte, error) {
	body, err := encode(n)
	if err != nil {
		return nil, err
	}
	own := slices.Collect(maps.Keys(ownFormats(n)))
	if channel := notification.Channel(n.Channel); slices.Contains(own, string(channel.Kind())) {
		own = append(own, n.Channel) // of a sender with a name
	}
	request, err := wire.Decode(body, own)
	if err == nil {
		var complete notification.Notification
		complete, err = intake.Complete(request.Notification)
		err = errors.Join(err, complete.Validate(time.Now(), mostContent(complete.Channel)))
	}
	if n.Template != nil {
		err = errors.Join(err, &notification.FieldError{
			Field: "template", Message: "only the API makes contents from templates; give title and body",
		})
	}
	if request.MaxWait != nil {
		err = errors.Join(err, &notification.FieldError{
			Field: "max_wait", Message: "only the API can tell how long a notification would wait; give expires_at",
		})
	}
	if n.IdempotencyKey != "" {
		err = errors.Join(err, &notification.FieldError{
			Field:   "idempotency_key",
			Message: "only the API keeps keys; give an id, which makes repeats one notification",
		})
	}
	if err != nil {
		return nil, fieldsRefused(err)
	}
	return body, nil
}

// mostContent is how long title, body and data together may be, as pacer.try_enqueue has it.
func mostContent(channel notification.Channel) int {
	switch channel.Kind() {
	case notification.ChannelWebhook, notification.ChannelLog, "email":
		return notification.MaxOverrideBytes
	}
	return notification.MaxContentBytes
}
