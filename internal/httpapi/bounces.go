package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pacer-notify/pacer/internal/feedback"
)

const (
	bouncesPath  = "/v1/email/bounces"
	mediaMessage = "message/rfc822"
	// maxMessage bounds a message that came back. What follows in a longer one is not needed.
	maxMessage = 1 << 20
)

type bounceInput struct {
	ContentType     string `header:"Content-Type" hidden:"true"`
	ContentEncoding string `header:"Content-Encoding" hidden:"true"`
	RawBody         []byte
}

// Bounce is what a message that came back was, and what it changed.
type Bounce struct {
	Kind           string   `json:"kind" enum:"gone,refused,delayed,complaint,unknown,no_report" doc:"gone: the address does not exist any more, and the devices with it are not active now. refused: it was given up for another reason. delayed: it may still arrive. complaint: the user is opted out. unknown: nothing in it is signed by this deployment, or the notification is forgotten. no_report: something else, such as an automatic reply."`
	NotificationID string   `json:"notification_id,omitempty"`
	Status         string   `json:"status,omitempty" doc:"Why the mail was given up, such as 5.1.1 (RFC 3463)."`
	UserID         string   `json:"user_id,omitempty" doc:"Whose devices were deactivated, or who was opted out."`
	Devices        []string `json:"devices,omitempty" doc:"The devices that are not active any more."`
	Category       string   `json:"category,omitempty" doc:"The category that the user was opted out of."`
}

type bounceOutput struct{ Body Bounce }

func (a *api) registerBounces(h huma.API) {
	huma.Register(h, huma.Operation{
		OperationID: "post-bounce", Method: http.MethodPost, Path: bouncesPath,
		Summary: "Take an e-mail that came back",
		Description: fmt.Sprintf("A delivery status notification (RFC 3464), a complaint (RFC 5965), or any other message to "+
			"the bounce address, which changes nothing. At most %d MiB: of a longer one send the beginning.", maxMessage>>20),
		Tags: []string{"e-mail"}, MaxBodyBytes: bodyUpTo(maxMessage),
		Errors: problems(http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
			http.StatusNotImplemented),
	}, a.bounce)
	h.OpenAPI().Paths[bouncesPath].Post.RequestBody = &huma.RequestBody{
		Required: true, Content: map[string]*huma.MediaType{
			mediaMessage: {Schema: &huma.Schema{Type: huma.TypeString, Description: "The message with its header."}},
		},
	}
}

func (a *api) bounce(ctx context.Context, in *bounceInput) (*bounceOutput, error) {
	if err := checkMedia(in.ContentType, in.ContentEncoding, mediaMessage); err != nil {
		return nil, err
	}
	if a.cfg.Inbox == nil {
		return nil, problem(http.StatusNotImplemented,
			"without a key, no e-mail that comes back can be recognized: set PACER_UNSUBSCRIBE_KEY")
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	result, err := a.cfg.Inbox.Take(ctx, in.RawBody)
	switch {
	case errors.Is(err, feedback.ErrUnderWay):
		return nil, problem(http.StatusConflict, err.Error()+"; post the message again in a second")
	case err != nil:
		return nil, a.away(ctx, "take an e-mail that came back", err)
	}
	a.bounces.WithLabelValues(string(result.Kind)).Inc()
	return &bounceOutput{Body: Bounce{
		Kind: string(result.Kind), NotificationID: result.NotificationID, Status: result.Status, UserID: result.UserID,
		Devices: result.Devices, Category: result.Category,
	}}, nil
}

// countBounces makes the counter of messages that came back, with all kinds from the start. It is registered unless
// there is no registry.
func countBounces(registry prometheus.Registerer) (*prometheus.CounterVec, error) {
	bounces := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pacer_bounces_total", Help: "E-mails that came back, by kind.",
	}, []string{"kind"})
	for _, kind := range feedback.Kinds() {
		bounces.WithLabelValues(string(kind))
	}
	if registry == nil {
		return bounces, nil
	}
	if err := registry.Register(bounces); err != nil {
		return nil, fmt.Errorf("register the metric of bounces: %w", err)
	}
	return bounces, nil
}
