package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pacer-notify/pacer/internal/notification"
)

// Devices keeps the users' devices, which get the notifications that name no target.
type Devices interface {
	// PutDevice registers a device. A [notification.FieldError] says what is wrong with it.
	PutDevice(ctx context.Context, d *notification.Device) error
	Device(ctx context.Context, userID, id string) (*notification.Device, error)
	DeleteDevice(ctx context.Context, userID, id string) error
	Devices(ctx context.Context, userID string) ([]notification.Device, error)
	// Deliveries reports what became of a notification on its user's devices.
	Deliveries(ctx context.Context, n *notification.Notification) ([]notification.Delivery, error)
}

// Device is the JSON form of a device.
type Device struct {
	ID            string     `json:"id"`
	UserID        string     `json:"user_id"`
	Channel       string     `json:"channel"`
	To            string     `json:"to"`
	Active        bool       `json:"active" doc:"False once its provider has said that it is gone; registering it again makes it active."`
	Reason        string     `json:"reason,omitempty" doc:"Why it is not active."`
	DeactivatedAt *time.Time `json:"deactivated_at,omitempty"`
	CreatedAt     time.Time  `json:"created_at"`
	UpdatedAt     time.Time  `json:"updated_at"`
}

// Delivery is what became of a notification on one device.
type Delivery struct {
	Device   string    `json:"device"`
	Attempts int       `json:"attempts"`
	Outcome  string    `json:"outcome" doc:"delivered, or why the latest attempt failed."`
	Reply    string    `json:"reply,omitempty" doc:"What the provider replied to the latest failure: its first 500 bytes, secrets and content masked."`
	Ended    bool      `json:"ended" doc:"True once the device will not be tried again."`
	At       time.Time `json:"at"`
}

type deviceInput struct {
	User   string `path:"user" doc:"Id of the user, percent-encoded."`
	Device string `path:"device" doc:"Id of the device; the client chooses it."`
}

type putDeviceInput struct {
	User   string `path:"user" doc:"Id of the user, percent-encoded."`
	Device string `path:"device" doc:"Id of the device; the client chooses it."`
	Body   struct {
		Channel string `json:"channel" doc:"A configured channel."`
		To      string `json:"to" doc:"The target: a device token, subscription, address or URL."`
	}
}

type devicesInput struct {
	User string `path:"user" doc:"Id of the user, percent-encoded."`
}

type deviceOutput struct{ Body Device }

type devicesOutput struct {
	Body struct {
		Devices []Device `json:"devices" nullable:"false"`
	}
}

// deviceAPI is the part about users' devices.
type deviceAPI struct{ *api }

func (a deviceAPI) register(h huma.API) {
	const all = "/v1/users/{user}/devices"
	const one = all + "/{device}"
	errs := problems(http.StatusUnprocessableEntity)
	h.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Device](), true, "Device")
	huma.Register(h, huma.Operation{
		OperationID: "list-devices", Method: http.MethodGet, Path: all, Summary: "List a user's devices",
		Description: "Active devices, and those that a provider called gone, with the reason.",
		Tags:        []string{"devices"}, Errors: errs,
	}, a.listDevices)
	huma.Register(h, huma.Operation{
		OperationID: "get-device", Method: http.MethodGet, Path: one, Summary: "Look up a device",
		Description: "An inactive device has the reason, and since when.",
		Tags:        []string{"devices"}, Errors: append(errs, http.StatusNotFound),
	}, a.getDevice)
	huma.Register(h, huma.Operation{
		OperationID: "put-device", Method: http.MethodPut, Path: one,
		Summary:      "Register a device, or register it again",
		Description:  "Notifications that name no target go to each active device of their user on their channel.",
		MaxBodyBytes: bodyUpTo(1 << 16),
		Tags:         []string{"devices"}, Errors: append(errs, http.StatusBadRequest, http.StatusRequestEntityTooLarge),
	}, a.putDevice)
	huma.Register(h, huma.Operation{
		OperationID: "delete-device", Method: http.MethodDelete, Path: one, Summary: "Remove a device",
		Description: "Nothing is sent to it any more. A device that is unknown is no error.",
		Tags:        []string{"devices"}, DefaultStatus: http.StatusNoContent, Errors: errs,
	}, a.deleteDevice)
}

func showDevice(d *notification.Device) Device {
	return Device{
		ID: d.ID, UserID: d.UserID, Channel: string(d.Channel), To: d.Target, Active: d.Active, Reason: d.Reason,
		DeactivatedAt: optional(d.DeactivatedAt), CreatedAt: instant(d.CreatedAt), UpdatedAt: instant(d.UpdatedAt),
	}
}

func (a deviceAPI) listDevices(ctx context.Context, in *devicesInput) (*devicesOutput, error) {
	if err := notification.CheckUserID(in.User); err != nil {
		return nil, problem(http.StatusUnprocessableEntity, summary(err))
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	devices, err := a.cfg.Devices.Devices(ctx, in.User)
	if err != nil {
		return nil, a.away(ctx, "list a user's devices", err)
	}
	out := &devicesOutput{}
	out.Body.Devices = []Device{}
	for _, d := range devices {
		out.Body.Devices = append(out.Body.Devices, showDevice(&d))
	}
	return out, nil
}

func (a deviceAPI) getDevice(ctx context.Context, in *deviceInput) (*deviceOutput, error) {
	if err := notification.CheckUserID(in.User); err != nil {
		return nil, problem(http.StatusUnprocessableEntity, summary(err))
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	d, err := a.cfg.Devices.Device(ctx, in.User, in.Device)
	switch {
	case errors.Is(err, notification.ErrNoDevice):
		return nil, problem(http.StatusNotFound, "the user has no device with this id")
	case err != nil:
		return nil, a.away(ctx, "look up a device", err)
	}
	return &deviceOutput{showDevice(d)}, nil
}

func (a deviceAPI) putDevice(ctx context.Context, in *putDeviceInput) (*deviceOutput, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	d := &notification.Device{
		UserID: in.User, ID: in.Device, Channel: notification.Channel(in.Body.Channel),
		Target: in.Body.To,
	}
	err := a.cfg.Devices.PutDevice(ctx, d)
	switch {
	case len(notification.FieldErrors(err)) > 0:
		return nil, refusal(err)
	case errors.Is(err, notification.ErrTooManyDevices):
		return nil, problem(http.StatusUnprocessableEntity, err.Error())
	case err != nil:
		return nil, a.away(ctx, "register a device", err)
	}
	return &deviceOutput{showDevice(d)}, nil
}

func (a deviceAPI) deleteDevice(ctx context.Context, in *deviceInput) (*struct{}, error) {
	if err := notification.CheckUserID(in.User); err != nil {
		return nil, problem(http.StatusUnprocessableEntity, summary(err))
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := a.cfg.Devices.DeleteDevice(ctx, in.User, in.Device); err != nil {
		return nil, a.away(ctx, "remove a device", err)
	}
	return nil, nil //nolint:nilnil // 204: no body
}

// deliveries shows what became of a notification on its user's devices. A notification with a target has none.
func (a *api) deliveries(ctx context.Context, n *notification.Notification) ([]Delivery, error) {
	if n.To != "" || a.cfg.Devices == nil {
		return nil, nil
	}
	all, err := a.cfg.Devices.Deliveries(ctx, n)
	shown := make([]Delivery, 0, len(all))
	for _, d := range all {
		shown = append(shown, Delivery{
			Device: d.DeviceID, Attempts: d.Attempts, Outcome: d.Outcome, Reply: d.Reply, Ended: d.Ended,
			At: instant(d.At),
		})
	}
	return shown, err
}
