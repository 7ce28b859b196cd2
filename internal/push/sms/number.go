package sms

import (
	"errors"
	"regexp"
	"strings"
)

// The forms that Twilio documents: numbers in E.164, short codes, names as senders, and SIDs.
var (
	number    = regexp.MustCompile(`\A\+[1-9][0-9]{6,14}\z`)
	shortCode = regexp.MustCompile(`\A[0-9]{3,8}\z`)
	name      = regexp.MustCompile(`\A[A-Za-z0-9 ]{1,11}\z`)
	service   = regexp.MustCompile(`\AMG[0-9a-fA-F]{32}\z`)
	sid       = regexp.MustCompile(`\A[A-Za-z0-9]{2,64}\z`) // other gateways have others than Twilio
)

// isSender reports whether a text may be a sender. A name has a letter, or nobody could tell it from a number.
func isSender(from string) bool {
	isName := name.MatchString(from) && strings.Trim(from, "0123456789 ") != ""
	return number.MatchString(from) || shortCode.MatchString(from) || isName || service.MatchString(from)
}

// CheckTarget implements [push.Checker]. A target is a number in E.164.
func (Checker) CheckTarget(to string) error {
	if !number.MatchString(to) {
		return errors.New("must be a phone number in E.164: + and 7 to 15 digits, the country's code first, " +
			"such as +4915112345678")
	}
	return nil
}
