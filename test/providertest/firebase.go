package providertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// FirebaseTarget is the device's token in a request to FCM; "" in one for an access token, which has none.
func FirebaseTarget(_ *http.Request, body []byte) string {
	var sent struct{ Message struct{ Token string } }
	_ = json.Unmarshal(body, &sent) // a form is no JSON
	return sent.Message.Token
}

// FirebaseTokens responds to requests for an access token where [FirebaseTarget] finds the targets.
func FirebaseTokens() Rule { return Rule{Target: Matching("^$"), Reply: AccessToken()} }

// AccessToken is how Google's token endpoint responds.
func AccessToken() Reply {
	return Reply{
		Header: map[string]string{"Content-Type": "application/json"},
		Body:   `{"access_token":"t","expires_in":3600,"token_type":"Bearer"}`,
	}
}

// FirebaseError is an error as FCM reports it, with further details in JSON.
func FirebaseError(status int, code string, details ...string) Reply {
	const detail = `{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":%q}`
	all := append([]string{fmt.Sprintf(detail, code)}, details...)
	return Reply{
		Status: status, Body: fmt.Sprintf(`{"error":{"code":%d,"details":[%s]}}`, status, strings.Join(all, ",")),
	}
}
