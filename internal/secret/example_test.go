package secret_test

import (
	"fmt"

	"github.com/pacer-notify/pacer/internal/secret"
)

// A secret shows itself only when asked to.
func ExampleSecret() {
	settings := struct {
		User     string
		Password secret.Secret
	}{User: "pacer", Password: secret.New("open sesame")}
	fmt.Printf("%+v\n", settings)
	fmt.Println(settings.Password.Reveal())
	// Output:
	// {User:pacer Password:<secret>}
	// open sesame
}
