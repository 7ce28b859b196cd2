package httpapi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/pacer-notify/pacer/internal/nearest"
	"github.com/pacer-notify/pacer/internal/notification"
)

// noBody is what the framework says of a request without the body that it needs, and longBody how it begins
// about one with a body that is too long.
const (
	noBody   = "request body is required"
	longBody = "request body is too large "
)

// sayFaults says in the detail of a problem what the framework found at a request, and what is allowed. By itself it
// says only that it failed. What the client sent is left out: it may be a target or a text.
func sayFaults(schemas huma.Registry) huma.Transformer {
	return func(ctx huma.Context, _ string, body any) (any, error) {
		p, ok := body.(*huma.ErrorModel)
		if !ok {
			return body, nil
		}
		operation := ctx.Operation()
		if p.Detail == noBody {
			p.Detail = "the body is empty; send " + strings.Join(mediaOf(operation), " or ") + ", as /docs shows"
			return p, nil
		}
		if strings.HasPrefix(p.Detail, longBody) { // and goes on with a limit that is one too high: see bodyUpTo
			p.Detail = fmt.Sprintf("the body is too long: it may have at most %d bytes",
				operation.MaxBodyBytes-1)
			return p, nil
		}
		if p.Detail != "validation failed" {
			return body, nil
		}
		fields := fieldsOf(schemas, operation)
		var parts []string
		for _, fault := range p.Errors {
			fault.Value = nil
			sayFault(fault, fields, operation)
			field := strings.TrimPrefix(strings.TrimPrefix(fault.Location, "body."), "query.")
			parts = append(parts, field+": "+fault.Message)
		}
		p.Detail = strings.Join(parts, "; ")
		return p, nil
	}
}

// sayFault puts one fault into pacer's words. fields are those that a body may have.
func sayFault(fault *huma.ErrorDetail, fields []string, operation *huma.Operation) {
	const required, media = "expected required property ", "unknown content type: "
	field := fault.Location[strings.LastIndex(fault.Location, ".")+1:]
	if name, found := strings.CutPrefix(fault.Message, required); found {
		fault.Location += "." + strings.TrimSuffix(name, " to be present")
		fault.Message = "is required"
		return
	}
	if given, found := strings.CutPrefix(fault.Message, media); found {
		fault.Message = "the Content-Type is " + nearest.Quote(given) + "; send " +
			strings.Join(mediaOf(operation), " or ")
		return
	}
	if field, message, found := strings.Cut(fault.Message, ": "); found && fault.Location == "body" {
		fault.Location, fault.Message = "body."+field, message // a notification.FieldError
		return
	}
	switch fault.Message {
	case validation.MsgUnexpectedProperty:
		fault.Message = "is not a field here"
		if strings.ToLower(field) != field {
			fault.Message += "; names of fields are written in small letters"
		}
		if fault.Location == "body."+field {
			fault.Message += "; the fields are " + nearest.List(fields) + nearest.Hint(field, fields)
		}
	case validation.MsgExpectedBoolean, "invalid boolean": // the latter of a parameter
		fault.Message = "must be true or false"
	case validation.MsgExpectedInteger:
		fault.Message = "must be a whole number"
	case validation.MsgExpectedNumber:
		fault.Message = "must be a number"
	case validation.MsgExpectedString:
		fault.Message = "must be a string"
	case validation.MsgExpectedArray:
		fault.Message = "must be an array"
	case validation.MsgExpectedObject:
		fault.Message = "must be an object"
	}
}

// mediaOf lists the media types that an operation takes.
func mediaOf(operation *huma.Operation) []string {
	if operation.RequestBody == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(operation.RequestBody.Content))
}

// fieldsOf lists the fields that the body of an operation may have.
func fieldsOf(schemas huma.Registry, operation *huma.Operation) []string {
	if operation.RequestBody == nil || operation.RequestBody.Content[mediaJSON] == nil {
		return nil
	}
	return propertiesOf(schemas, operation.RequestBody.Content[mediaJSON].Schema)
}

func propertiesOf(schemas huma.Registry, schema *huma.Schema) []string {
	if schema != nil && schema.Ref != "" {
		schema = schemas.SchemaFromRef(schema.Ref)
	}
	if schema == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(schema.Properties))
}

// validator finds what the framework would find at a body of the schema, in the same words.
func validator(schemas huma.Registry, schema *huma.Schema) func(document any) error {
	fields := propertiesOf(schemas, schema)
	return func(document any) error {
		var found huma.ValidateResult
		path := huma.NewPathBuffer([]byte("body"), len("body"))
		huma.Validate(schemas, schema, path, huma.ModeWriteToServer, document, &found)
		var faults []error
		for _, err := range found.Errors {
			if fault, ok := errors.AsType[*huma.ErrorDetail](err); ok {
				sayFault(fault, fields, nil)
				faults = append(faults, &notification.FieldError{
					Field: strings.TrimPrefix(fault.Location, "body."), Message: fault.Message,
				})
			}
		}
		return errors.Join(faults...)
	}
}
