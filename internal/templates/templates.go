// Package templates makes the contents of notifications from named templates. A template has versions for locales, with
// a fallback.
//
// A folder has one folder per template. That has one folder per locale, which holds the parts; only body.txt is
// required:
//
//	order-shipped/default/title.txt
//	order-shipped/default/body.txt
//	order-shipped/de/title.txt
//	order-shipped/de/body.txt
//	order-shipped/de/body.html    the HTML part of e-mails
//
// For de-AT, the first of de-AT, de and default that exists is used. Data that lacks a value which the template uses is
// refused.
package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"io/fs"
	"path"
	"strings"
	texttemplate "text/template"
)

const (
	// fallback is the locale that is used when there is no nearer one.
	fallback = "default"
	// maxSource bounds a part as it is written, maxOutput as it comes out, in bytes.
	maxSource = 256 << 10
	maxOutput = 1 << 20
)

// Set is the templates of a folder. It never changes.
type Set struct {
	// templates by name and locale
	templates map[string]map[string]*template
}

// template is a template in one locale.
type template struct{ title, body, html executor }

// executor is what the templates of both template packages can do.
type executor interface {
	Execute(w io.Writer, data any) error
}

// Content is what a template makes. HTML is empty when the template has no HTML part.
type Content struct{ Title, Body, HTML string }

// Load reads a folder. The error names every file that can't be part of a template.
func Load(folder fs.FS) (*Set, error) {
	s := &Set{templates: map[string]map[string]*template{}}
	names, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, fmt.Errorf("read the folder of templates: %w", err)
	}
	var faults []error
	for _, name := range names {
		if !name.IsDir() || strings.HasPrefix(name.Name(), ".") {
			continue
		}
		locales, err := loadLocales(folder, name.Name())
		if err != nil {
			faults = append(faults, err)
		}
		s.templates[name.Name()] = locales
	}
	return s, errors.Join(faults...)
}

func loadLocales(folder fs.FS, name string) (map[string]*template, error) {
	entries, err := fs.ReadDir(folder, name)
	if err != nil {
		return nil, fmt.Errorf("read template %s: %w", name, err)
	}
	locales := map[string]*template{}
	var faults []error
	for _, entry := range entries {
		if !entry.IsDir() {
			faults = append(faults, fmt.Errorf("%s/%s: must be a folder named as a locale, such as default or de-AT",
				name, entry.Name()))
			continue
		}
		t, err := loadTemplate(folder, path.Join(name, entry.Name()))
		faults = append(faults, err)
		locales[strings.ToLower(entry.Name())] = t
	}
	if locales[fallback] == nil && errors.Join(faults...) == nil {
		faults = append(faults, fmt.Errorf("%s: has no folder default", name))
	}
	return locales, errors.Join(faults...)
}

func loadTemplate(folder fs.FS, at string) (*template, error) {
	entries, err := fs.ReadDir(folder, at)
	if err != nil {
		return nil, fmt.Errorf("read template %s: %w", at, err)
	}
	t := &template{}
	var faults []error
	for _, entry := range entries {
		file := path.Join(at, entry.Name())
		source, err := fs.ReadFile(folder, file)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: %w", file, err))
			continue
		case len(source) > maxSource:
			faults = append(faults, fmt.Errorf("%s: may have at most %d bytes", file, maxSource))
			continue
		}
		text := strings.TrimRight(string(source), "\r\n") // editors end a file with a line break
		switch entry.Name() {
		case "title.txt":
			t.title, err = texttemplate.New(file).Option("missingkey=error").Parse(text)
		case "body.txt":
			t.body, err = texttemplate.New(file).Option("missingkey=error").Parse(text)
		case "body.html":
			t.html, err = htmltemplate.New(file).Option("missingkey=error").Parse(text)
		default:
			err = fmt.Errorf("%s: is no part of a template; title.txt, body.txt and body.html are", file)
		}
		faults = append(faults, err)
	}
	if t.body == nil && errors.Join(faults...) == nil {
		faults = append(faults, fmt.Errorf("%s: has no body.txt", at))
	}
	return t, errors.Join(faults...)
}

// ErrUnknown tells that there is no template with that name.
var ErrUnknown = errors.New("there is no template with this name")

// DataError says that the data does not fit the template.
type DataError struct{ message string }

// Error says what is missing or wrong.
func (e *DataError) Error() string { return e.message }

// Render fills in a template, in the nearest locale that it has. data is a JSON object, or empty.
func (s *Set) Render(name, locale string, data json.RawMessage) (Content, error) {
	t := s.nearest(name, locale)
	if t == nil {
		return Content{}, ErrUnknown
	}
	values := map[string]any{}
	if len(data) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber() // numbers come out as they were written
		if err := decoder.Decode(&values); err != nil || values == nil {
			return Content{}, &DataError{"must be a JSON object"}
		}
	}
	var content Content
	for _, part := range []struct {
		of  executor
		out *string
	}{{t.title, &content.Title}, {t.body, &content.Body}, {t.html, &content.HTML}} {
		if isNil(part.of) {
			continue
		}
		text, err := render(part.of, values)
		if err != nil {
			return Content{}, err
		}
		*part.out = text
	}
	return content, nil
}

// isNil tells whether a part is missing. A nil *Template in an interface is not nil.
func isNil(part executor) bool {
	switch t := part.(type) {
	case *texttemplate.Template:
		return t == nil
	case *htmltemplate.Template:
		return t == nil
	}
	return part == nil
}

func (s *Set) nearest(name, locale string) *template {
	locales := s.templates[name]
	for tag := strings.ToLower(strings.ReplaceAll(locale, "_", "-")); tag != ""; {
		if t := locales[tag]; t != nil {
			return t
		}
		cut := strings.LastIndexByte(tag, '-')
		if cut < 0 {
			break
		}
		tag = tag[:cut]
	}
	return locales[fallback]
}

func render(part executor, values map[string]any) (string, error) {
	out := &limited{}
	err := part.Execute(out, values)
	if errors.Is(err, errTooLong) {
		return "", &DataError{fmt.Sprintf("makes more than %d bytes of content", maxOutput)}
	}
	if err != nil {
		return "", &DataError{explain(err)}
	}
	return out.text.String(), nil
}

// explain makes a sentence of a template's error, without the data in it.
func explain(err error) string {
	message := err.Error()
	if _, key, ok := strings.Cut(message, "map has no entry for key "); ok {
		return "lacks " + key
	}
	return "does not fit the template"
}

var errTooLong = errors.New("too long")

// limited collects a text of bounded length.
type limited struct{ text strings.Builder }

// Write implements [io.Writer].
func (l *limited) Write(p []byte) (int, error) {
	if l.text.Len()+len(p) > maxOutput {
		return 0, errTooLong
	}
	return l.text.Write(p)
}
