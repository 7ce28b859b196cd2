package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// home is where the project is.
const home = "https://github.com/pacer-notify/pacer"

// describe says in the document what tools and people look for beside the operations.
func describe(document *huma.OpenAPI) {
	document.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	document.Info.Contact = &huma.Contact{Name: "pacer", URL: home}
	document.Servers = []*huma.Server{
		{URL: "/", Description: "The process that serves this document"},
		{URL: "http://127.0.0.1:8080", Description: "A process with the default settings"},
	}
	document.Tags = []*huma.Tag{
		{Name: "devices", Description: "Where a user's notifications without a target go."},
		{Name: "e-mail", Description: "What mail servers and readers of e-mails call."},
		{Name: "events", Description: "What has happened in the deployment."},
		{Name: "notifications", Description: "Send, look up and cancel notifications."},
		{Name: "stats", Description: "Counts of the whole deployment."},
		{Name: "users", Description: "A user's limits and preferences."},
		{Name: "webhook endpoints", Description: "URLs with keys and headers of their own."},
	}
	for id, text := range details {
		operationOf(document, id).Description = text
	}
}

// details say what the summaries of operations leave open.
var details = map[string]string{
	"accept-notification": "A repeat with the same id or idempotency key and the same content gets the first response. With " +
		"promise=true the response says when the notification will be delivered.",
	"get-notification":            "With its status, its attempts and its timeline; deliver_at is when it will go, while it waits.",
	"cancel-notification":         "A notification that is being delivered, or has ended, is not cancelled: 409.",
	"list-notifications":          "A page at a time; next leads to the following one.",
	"get-user":                    "Windows, preferences and devices of the user, and what waits for the user.",
	"get-throttle":                "time_left_ms is how long the next notification of the category would wait.",
	"clear-throttle":              "The next notifications go out as if the user had got none. Caps keep their windows.",
	"list-devices":                "Active devices, and those that a provider called gone, with the reason.",
	"get-device":                  "An inactive device has the reason, and since when.",
	"delete-device":               "Nothing is sent to it any more. A device that is unknown is no error.",
	"get-preferences":             "Time zone, quiet hours, opt-outs and limits of the user; empty when none are set.",
	"delete-preferences":          "The policy then applies to the user as to everybody else.",
	"get-stats":                   "All totals are exact once nothing is under way. partial is true while a part of the store does not respond.",
	"get-history":                 "Hours without any notification are left out.",
	"list-webhook-endpoints":      "With their health, and without secrets and the values of headers.",
	"get-webhook-endpoint":        "With its health, and without its secret and the values of its headers.",
	"update-webhook-endpoint":     "Members that are absent stay as they are.",
	"delete-webhook-endpoint":     "Calls to its URL are then signed as those to any other.",
	"get-webhook-endpoint-secret": "The secret of an HMAC key, or the public half of an Ed25519 key.",
}

// addProblems gives each problem without an example one with its status.
func addProblems(document *huma.OpenAPI) error {
	// The types of problems are relative references, such as too-late.
	for _, schema := range document.Components.Schemas.Map() {
		if of := schema.Properties["type"]; of != nil && of.Format == "uri" {
			of.Format = "uri-reference"
		}
	}
	for _, item := range document.Paths {
		for _, operation := range methodsOf(item) {
			for status, response := range operation.Responses {
				of := response.Content["application/problem+json"]
				if of == nil || of.Example != nil || of.Examples != nil {
					continue
				}
				code, err := strconv.Atoi(status)
				if err != nil {
					return fmt.Errorf("the status of a problem: %w", err)
				}
				shown, err := json.Marshal(huma.ErrorModel{Status: code, Title: http.StatusText(code)})
				if err != nil {
					return fmt.Errorf("write the example of a problem: %w", err)
				}
				of.Example = json.RawMessage(shown)
			}
		}
	}
	return nil
}
