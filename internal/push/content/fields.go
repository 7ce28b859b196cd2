package content

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is what the value of a member is.
type Kind string

// The kinds, in the words in which they are told.
const (
	Text    Kind = "a text"
	Whole   Kind = "a whole number"
	YesNo   Kind = "true or false"
	Struct  Kind = "an object"
	Texts   Kind = "a list of texts"
	Structs Kind = "a list of objects"
	TextMap Kind = "an object of texts"
)

// Field is what a provider documents of a member of its messages. Messages are checked by it, and docs/channels.md is
// made of it.
type Field struct {
	// Path is the member's name, after those of the objects that it is in: android.priority.
	Path string
	Kind Kind
	// Values are the only ones that a text may have, in capitals or not.
	Values []string
	// Form is what a text looks like, and Like an example.
	Form *regexp.Regexp
	Like string
	// Least and Most bound a number. Most also bounds the characters of a text, and how many a list has.
	Least, Most int
	// Refused says why a notification can't set the member. Its kind does not matter then.
	Refused string
}

// Fields are what a channel knows of its messages. Members that are not among them pass: providers add new ones.
type Fields []Field

// Check refuses a message that the provider would refuse. Its errors hold nothing of the message but names.
func (fields Fields) Check(message map[string]any) error {
	names := make([]string, 0, len(fields))
	for _, f := range fields {
		name, _, _ := strings.Cut(f.Path, ".")
		names = append(names, name)
	}
	if err := CheckCase(message, names...); err != nil {
		return err
	}
	for _, f := range fields {
		value, given := memberAt(message, f.Path)
		switch {
		case given && f.Refused != "":
			return errors.New(f.Path + ": " + f.Refused)
		case given && !f.fits(value):
			return errors.New(f.Path + ": must be " + f.Wanted())
		}
	}
	return nil
}

// memberAt finds a member by its path. One inside something else than an object is not there.
func memberAt(message map[string]any, path string) (any, bool) {
	outer, inner, nested := strings.Cut(path, ".")
	value, given := message[outer]
	if !nested || !given {
		return value, given
	}
	object, _ := value.(map[string]any)
	return memberAt(object, inner)
}

// Wanted says what the value must be.
func (f Field) Wanted() string {
	switch {
	case len(f.Values) == 1:
		return f.Values[0]
	case len(f.Values) > 0:
		return "one of " + strings.Join(f.Values, ", ")
	case f.Like != "":
		return string(f.Kind) + " such as " + f.Like
	case f.Kind == Whole:
		return fmt.Sprintf("%s from %d to %d", f.Kind, f.Least, f.Most)
	case f.Kind == Text && f.Most > 0:
		return fmt.Sprintf("%s of at most %d characters", f.Kind, f.Most)
	case f.Most > 0:
		return strings.Replace(string(f.Kind), "list of", fmt.Sprintf("list of at most %d", f.Most), 1)
	}
	return string(f.Kind)
}

// fits reports whether a value is what is wanted.
func (f Field) fits(value any) bool {
	switch f.Kind {
	case Text:
		text, ok := value.(string)
		return ok && f.fitsText(text)
	case Whole:
		n, err := strconv.Atoi(fmt.Sprint(value))
		_, isText := value.(string)
		return err == nil && !isText && n >= f.Least && n <= f.Most
	case YesNo:
		_, ok := value.(bool)
		return ok
	case Struct:
		return isObject(value)
	case Texts:
		return f.fitsList(value, isText)
	case Structs:
		return f.fitsList(value, isObject)
	case TextMap:
		object, ok := value.(map[string]any)
		for _, inner := range object {
			ok = ok && isText(inner)
		}
		return ok
	}
	return true
}

func (f Field) fitsText(text string) bool {
	known := len(f.Values) == 0
	for _, value := range f.Values {
		known = known || strings.EqualFold(text, value)
	}
	return known && (f.Form == nil || f.Form.MatchString(text)) &&
		(f.Most == 0 || utf8.RuneCountInString(text) <= f.Most)
}

func (f Field) fitsList(value any, fits func(any) bool) bool {
	list, ok := value.([]any)
	for _, inner := range list {
		ok = ok && fits(inner)
	}
	return ok && (f.Most == 0 || len(list) <= f.Most)
}

func isText(value any) bool {
	_, ok := value.(string)
	return ok
}

func isObject(value any) bool {
	_, ok := value.(map[string]any)
	_, raw := value.(json.RawMessage)
	return ok || raw
}
