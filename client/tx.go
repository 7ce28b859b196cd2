package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Tx is a pgx transaction or connection.
type Tx interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// EnqueueTx enqueues a notification if and only if the transaction commits, and returns its id. The transaction must be
// in the database of pacer's store. pacer finds the notification within a second of the commit.
//
// An [*Error] with status 422 says what is wrong with the notification. Then the transaction can only be rolled back.
// What only the policy refuses, such as an unknown category, shows later: the notification ends as failed. EnqueueTx
// knows no idempotency keys; use an id.
func EnqueueTx(ctx context.Context, tx Tx, n Notification) (id string, err error) {
	body, err := json.Marshal(n)
	if err != nil {
		return "", fmt.Errorf("encode the notification: %w", err)
	}
	err = tx.QueryRow(ctx, "SELECT pacer.enqueue($1)", body).Scan(&id)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == invalidParameter {
		detail := strings.TrimPrefix(refused.Message, "pacer.enqueue: ")
		err = &Error{
			Status: http.StatusUnprocessableEntity, Title: http.StatusText(http.StatusUnprocessableEntity),
			Detail: detail,
		}
	}
	if err != nil {
		return "", fmt.Errorf("enqueue a notification: %w", err)
	}
	return id, nil
}

// invalidParameter is the error code with which pacer.enqueue refuses a notification.
const invalidParameter = "22023"
