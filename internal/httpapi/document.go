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
