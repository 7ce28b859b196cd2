package webpush

import (
	"net/http"
	"strings"

	"github.com/pacer-notify/pacer/internal/push"
	"github.com/pacer-notify/pacer/internal/push/httpsend"
)

// classify says what the response of a push service means; nil is delivered. text is the beginning of its body.
func classify(response *http.Response, text string) *push.Error {
	read := httpsend.ResponseOf(response)
	for _, words := range otherKeyWords {
		if strings.Contains(text, words) {
			read.Conditions = []string{otherKey}
		}
	}
	return responses.Read(read)
}
