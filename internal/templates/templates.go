// Package templates makes the contents of notifications from named templates. A template has versions for locales, with
// a fallback.
//
// A folder has one folder per template. That has one folder per locale, which holds the parts; only default/body.txt is
// required:
//
//	order-shipped/default/title.txt
//	order-shipped/default/body.txt
//	order-shipped/de/title.txt
//	order-shipped/de/body.txt
//	order-shipped/de/body.html    the HTML part of e-mails
//	order-shipped/de-AT/title.txt
//
// For de-AT, title and body are looked for in de-AT, de and default. The body's HTML comes with its text: a locale that
// has only the text gets no HTML in another language beside it. Data that lacks a value which the template uses is
// refused.
package templates

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pacer-notify/pacer/internal/nearest"
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
	// templates by name
	templates map[string]locales
}

// locales are the locales of a template, and parts the files of one of them, each by its name.
type (
	locales map[string]parts
	parts   map[string]executor
)

// The names of the parts.
const (
	titlePart = "title.txt"
	bodyPart  = "body.txt"
	htmlPart  = "body.html"
)

// executor is what the templates of both template packages can do.
type executor interface {
	Execute(w io.Writer, data any) error
}

// Content is what a template makes. HTML is empty when the template has no HTML part.
type Content struct{ Title, Body, HTML string }

// Load reads a folder. The error names every file that can't be part of a template.
func Load(folder fs.FS) (*Set, error) {
	s := &Set{templates: map[string]locales{}}
	names, err := fs.ReadDir(folder, ".")
	if err != nil {
		return nil, fmt.Errorf("read the folder of templates: %w", err)
	}
	var faults []error
	for _, name := range names {
		if !name.IsDir() || strings.HasPrefix(name.Name(), ".") {
			continue
		}
		found, err := loadLocales(folder, name.Name())
		if err != nil {
			faults = append(faults, err)
		}
		s.templates[name.Name()] = found
	}
	return s, errors.Join(faults...)
}

func loadLocales(folder fs.FS, name string) (locales, error) {
	entries, err := fs.ReadDir(folder, name)
	if err != nil {
		return nil, fmt.Errorf("read template %s: %w", name, err)
	}
	found, folders := locales{}, map[string]string{}
	var faults []error
	for _, entry := range entries {
		if !entry.IsDir() {
			faults = append(faults, fmt.Errorf("%s/%s: must be a folder named as a locale, such as default or de-AT",
				name, entry.Name()))
			continue
		}
		of, err := loadParts(folder, path.Join(name, entry.Name()))
		faults = append(faults, err)
		tag := tagOf(entry.Name())
		if other, taken := folders[tag]; taken {
			faults = append(faults, fmt.Errorf("%s/%s: is the same locale as %s/%s", name, entry.Name(), name,
				other))
		}
		found[tag], folders[tag] = of, entry.Name()
	}
	switch {
	case errors.Join(faults...) != nil:
	case found[fallback] == nil:
		faults = append(faults, fmt.Errorf("%s: has no folder default, which other locales fall back on", name))
	case found[fallback][bodyPart] == nil:
		faults = append(faults, fmt.Errorf("%s/default: has no body.txt", name))
	}
	return found, errors.Join(faults...)
}

func loadParts(folder fs.FS, at string) (parts, error) {
	entries, err := fs.ReadDir(folder, at)
	if err != nil {
		return nil, fmt.Errorf("read template %s: %w", at, err)
	}
	found := parts{}
	var faults []error
	for _, entry := range entries {
		file := path.Join(at, entry.Name())
		source, err := fs.ReadFile(folder, file)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: %w", file, err))
			continue
		case len(source) > maxSource:
			faults = append(faults, fmt.Errorf("%s: may have at most %d bytes, has %d", file, maxSource, len(source)))
			continue
		}
		text := strings.TrimRight(string(source), "\r\n") // editors end a file with a line break
		switch entry.Name() {
		case titlePart, bodyPart:
			found[entry.Name()], err = parseText(file, text)
		case htmlPart:
			found[entry.Name()], err = parseHTML(file, text)
		default:
			err = fmt.Errorf("%s: is no part of a template; title.txt, body.txt and body.html are", file)
		}
		faults = append(faults, err)
	}
	if len(entries) == 0 {
		faults = append(faults, fmt.Errorf("%s: is empty; it may hold title.txt, body.txt and body.html", at))
	}
	return found, errors.Join(faults...)
}

// UnknownError says that there is no template with that name.
type UnknownError struct {
	Name string
	// Names are those that there are.
	Names []string
}

// Error names the template, and those that there are.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("there is no template %s; there are %s%s", nearest.Quote(e.Name), nearest.List(e.Names),
		nearest.Hint(e.Name, e.Names))
}

// DataError says that the data does not fit the template.
type DataError struct{ message string }

// Error says what is missing or wrong.
func (e *DataError) Error() string { return e.message }

// Render fills in a template, in the nearest locale that it has. data is a JSON object, or empty.
func (s *Set) Render(name, locale string, data json.RawMessage) (Content, error) {
	of, known := s.templates[name]
	if !known {
		return Content{}, &UnknownError{Name: name, Names: slices.Collect(maps.Keys(s.templates))}
	}
	values := map[string]any{}
	if len(data) > 0 {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber() // numbers come out as they were written
		if err := decoder.Decode(&values); err != nil || values == nil {
			return Content{}, &DataError{"must be a JSON object with the values that the template uses"}
		}
	}
	var content Content
	nearest := of.nearest(locale)
	for _, part := range []struct {
		name string
		out  *string
	}{{titlePart, &content.Title}, {bodyPart, &content.Body}, {htmlPart, &content.HTML}} {
		template := nearest[part.name]
		if template == nil {
			continue
		}
		text, err := render(template, values)
		if err != nil {
			return Content{}, err
		}
		*part.out = text
	}
	return content, nil
}

// tagOf is the one way to write a locale: de_AT and de-at are the same.
func tagOf(locale string) string { return strings.ToLower(strings.ReplaceAll(locale, "_", "-")) }

// nearest finds each part in the nearest locale that has it, but no HTML farther away than a text: mail programs show
// the HTML, in whatever language it is.
func (l locales) nearest(locale string) parts {
	found := parts{}
	for tags := strings.Split(tagOf(locale), "-"); ; tags = tags[:len(tags)-1] {
		of := l[strings.Join(tags, "-")]
		if len(tags) == 0 {
			of = l[fallback]
		}
		if found[bodyPart] == nil {
			found[htmlPart] = cmp.Or(found[htmlPart], of[htmlPart])
		}
		found[titlePart] = cmp.Or(found[titlePart], of[titlePart])
		found[bodyPart] = cmp.Or(found[bodyPart], of[bodyPart])
		if len(tags) == 0 {
			return found
		}
	}
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

// noValue is what package text/template writes of a value that is null, in one call. HTML has nothing there.
const noValue = "<no value>"

// Write implements [io.Writer].
func (l *limited) Write(p []byte) (int, error) {
	if string(p) == noValue {
		return len(p), nil
	}
	if l.text.Len()+len(p) > maxOutput {
		return 0, errTooLong
	}
	return l.text.Write(p)
}
