package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Channels are the credentials of the channels besides webhook and log, each of which is there once its credentials
// are, and what webhooks and contents can be told besides. In the settings file they may stand together, as
//
//	channels:
//	  fcm: {credentials: file:/run/secrets/fcm.json}
//
// A credential is the text itself, or file: and the path of a file that holds it.
type Channels struct {
	// WebhookTargets are secrets of single targets, host=whsec_...; a host without a secret is not signed for.
	WebhookTargets []string `name:"webhook-targets" placeholder:"HOST=SECRET" json:"-" help:"Secrets of single webhook targets, instead of --webhook-secret."`

	// FCMCredentials are a service account's key in JSON. FCMProject defaults to its project, FCMEndpoint to Google's.
	FCMCredentials string `name:"fcm-credentials" placeholder:"JSON|file:PATH" json:"-" help:"Firebase Cloud Messaging: a service account's key."`
	FCMProject     string `name:"fcm-project" placeholder:"ID" help:"Firebase project. Default: the service account's."`
	FCMEndpoint    string `name:"fcm-endpoint" placeholder:"URL" help:"Another base URL of FCM."`

	// APNsKey is the text of a .p8 file. APNsEndpoint is production, sandbox or a URL; it defaults to production.
	APNsKey      string `name:"apns-key" placeholder:"PEM|file:PATH" json:"-" help:"Apple Push Notification service: the signing key (.p8)."`
	APNsKeyID    string `name:"apns-key-id" placeholder:"ID" help:"Id of the signing key, ten characters."`
	APNsTeamID   string `name:"apns-team-id" placeholder:"ID" help:"Id of the team, ten characters."`
	APNsTopic    string `name:"apns-topic" placeholder:"BUNDLE" help:"Bundle id of the app."`
	APNsEndpoint string `name:"apns-endpoint" placeholder:"URL" help:"production, sandbox or another base URL. Default: production."`

	// WebPushKey is the VAPID private key, WebPushSubject whom push services can ask.
	WebPushKey     string `name:"webpush-key" placeholder:"KEY|file:PATH" json:"-" help:"Web Push: the VAPID private key, 32 bytes in base64url."`
	WebPushSubject string `name:"webpush-subject" placeholder:"URL" help:"Whom push services can ask: an https URL or a mailto: address."`

	// EmailServer is smtp://[user@]host[:port] (STARTTLS), smtps://... or smtp+plain://...
	EmailServer   string `name:"email-server" placeholder:"URL" help:"E-mail: smtp://[user@]host[:port] (STARTTLS), smtps://... or smtp+plain://..."`
	EmailPassword string `name:"email-password" placeholder:"TEXT|file:PATH" json:"-" help:"Password of the user in --email-server."`
	EmailFrom     string `name:"email-from" placeholder:"ADDRESS" help:"Sender's address of e-mails."`

	// The limits are what a channel's provider may be asked, over all processes, of the form 600000/1m. They default to
	// none, FCM's to what Google gives a project.
	WebhookLimits []string `name:"webhook-limits" placeholder:"N/DURATION" help:"Calls to webhooks, over all processes. Default: none."`
	FCMLimits     []string `name:"fcm-limits" default:"600000/1m" placeholder:"N/DURATION" help:"Calls to FCM, over all processes. Default: ${default}."`
	APNsLimits    []string `name:"apns-limits" placeholder:"N/DURATION" help:"Calls to APNs, over all processes. Default: none."`
	WebPushLimits []string `name:"webpush-limits" placeholder:"N/DURATION" help:"Calls to push services, over all processes. Default: none."`
	EmailLimits   []string `name:"email-limits" placeholder:"N/DURATION" help:"E-mails, over all processes. Default: none."`
}

// String shows the settings without what is secret in them.
func (c Channels) String() string {
	return fmt.Sprintf("{webhook-targets:%d fcm-credentials:%s fcm-project:%s fcm-endpoint:%s apns-key:%s apns-key-id:%s apns-team-id:%s "+
		"apns-topic:%s apns-endpoint:%s webpush-key:%s webpush-subject:%s email-server:%s email-password:%s email-from:%s "+
		"webhook-limits:%s fcm-limits:%s apns-limits:%s webpush-limits:%s email-limits:%s}",
		len(c.WebhookTargets), hidden(c.FCMCredentials), c.FCMProject, c.FCMEndpoint, hidden(c.APNsKey), c.APNsKeyID,
		c.APNsTeamID,
		c.APNsTopic, c.APNsEndpoint, hidden(c.WebPushKey), c.WebPushSubject, withoutPassword(c.EmailServer),
		hidden(c.EmailPassword), c.EmailFrom,
		c.WebhookLimits, c.FCMLimits, c.APNsLimits, c.WebPushLimits, c.EmailLimits)
}

// GoString is String, for %#v.
func (c Channels) GoString() string { return c.String() }

// resolve reads credentials from their files and refuses channels of which something is missing.
func (c Channels) resolve() (Channels, error) {
	var faults []error
	for _, need := range []struct{ given, value, other, otherValue string }{
		{"fcm-project", c.FCMProject, "fcm-credentials", c.FCMCredentials},
		{"fcm-endpoint", c.FCMEndpoint, "fcm-credentials", c.FCMCredentials},
		{"apns-key", c.APNsKey, "apns-key-id", c.APNsKeyID},
		{"apns-key", c.APNsKey, "apns-team-id", c.APNsTeamID},
		{"apns-key", c.APNsKey, "apns-topic", c.APNsTopic},
		{"apns-key-id", c.APNsKeyID, "apns-key", c.APNsKey},
		{"webpush-key", c.WebPushKey, "webpush-subject", c.WebPushSubject},
		{"webpush-subject", c.WebPushSubject, "webpush-key", c.WebPushKey},
		{"email-server", c.EmailServer, "email-from", c.EmailFrom},
		{"email-from", c.EmailFrom, "email-server", c.EmailServer},
		{"email-password", c.EmailPassword, "email-server", c.EmailServer},
	} {
		if need.value != "" && need.otherValue == "" {
			faults = append(faults, refuse(need.given, "needs %s to be set too", flagName(need.other)))
		}
	}
	for _, target := range c.WebhookTargets {
		host, secrets, ok := strings.Cut(target, "=")
		if !ok || host == "" || strings.ContainsAny(host, "/@ ") {
			faults = append(faults, refuse("webhook-targets", "must hold entries such as hooks.example.com=whsec_..."))
			continue
		}
		faults = append(faults, checkWebhookSecrets("webhook-targets", secrets))
	}
	for _, credential := range []struct {
		flag  string
		value *string
	}{
		{"fcm-credentials", &c.FCMCredentials},
		{"apns-key", &c.APNsKey},
		{"webpush-key", &c.WebPushKey},
		{"email-password", &c.EmailPassword},
	} {
		faults = append(faults, readCredential(credential.flag, credential.value))
	}
	for channel := range c.limits() {
		_, err := c.Limits(channel)
		faults = append(faults, err)
	}
	return c, errors.Join(faults...)
}

// limits are those of each channel.
func (c Channels) limits() map[string][]string {
	return map[string][]string{
		"webhook": c.WebhookLimits, "fcm": c.FCMLimits, "apns": c.APNsLimits, "webpush": c.WebPushLimits,
		"email": c.EmailLimits,
	}
}

// Limits are what a channel's provider may be asked, over all processes.
func (c Channels) Limits(channel string) ([]RequestLimit, error) {
	return resolveLimits(channel+"-limits", c.limits()[channel])
}

// maxCredential is how long a file with a credential may be.
const maxCredential = 64 << 10

// readCredential replaces file:PATH by what is in the file.
func readCredential(flag string, value *string) error {
	path, ok := strings.CutPrefix(*value, "file:")
	if !ok {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return refuse(flag, "can't be read: %v", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCredential+1))
	switch {
	case err != nil:
		return refuse(flag, "can't be read: %v", err)
	case len(text) > maxCredential:
		return refuse(flag, "is in a file of more than %d bytes", maxCredential)
	}
	if *value = strings.TrimSpace(string(text)); *value == "" {
		return refuse(flag, "is in a file that is empty")
	}
	return nil
}

// SplitSecrets reads secrets that are separated by commas, the newest first.
func SplitSecrets(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
}

// checkWebhookSecrets checks each of several secrets.
func checkWebhookSecrets(flag, secrets string) error {
	var faults []error
	for _, secret := range SplitSecrets(secrets) {
		faults = append(faults, checkWebhookSecret(flag, secret))
	}
	return errors.Join(faults...)
}
