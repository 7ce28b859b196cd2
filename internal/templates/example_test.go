package templates_test

import (
	"encoding/json"
	"fmt"
	"testing/fstest"

	"github.com/pacer-notify/pacer/internal/templates"
)

// A folder has one folder per template, with one folder per locale. For de-AT, the nearest here is de. A value that the
// data lacks is refused.
func ExampleSet_Render() {
	set, err := templates.Load(fstest.MapFS{
		"order-shipped/default/title.txt": {Data: []byte("Order {{.order}} is on its way")},
		"order-shipped/default/body.txt":  {Data: []byte("It arrives on {{.day}}.\n")},
		"order-shipped/de/title.txt":      {Data: []byte("Bestellung {{.order}} ist unterwegs")},
		"order-shipped/de/body.txt":       {Data: []byte("Sie kommt am {{.day}} an.\n")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, locale := range []string{"fr", "de-AT"} {
		content, err := set.Render("order-shipped", locale, json.RawMessage(`{"order": 7, "day": "2026-03-14"}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s | %s\n", content.Title, content.Body)
	}
	_, err = set.Render("order-shipped", "en", json.RawMessage(`{"order": 7}`))
	fmt.Println("the data", err)
	// Output:
	// Order 7 is on its way | It arrives on 2026-03-14.
	// Bestellung 7 ist unterwegs | Sie kommt am 2026-03-14 an.
	// the data lacks "day"
}
