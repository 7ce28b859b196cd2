package apns

// Identity is what a notification's id becomes.
var Identity = identity
