package sms

import "strings"

// The characters of GSM 03.38. Those of the extension take two places.
const (
	gsmBasic = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§" +
		"¿abcdefghijklmnopqrstuvwxyzäöñüà"
	gsmExtension = "\f^{}\\[~]|€"
)

// How many places a message of one segment has, and each segment of a longer one: septets of GSM-7, units of UCS-2.
const (
	gsmAlone, gsmPart   = 160, 153
	ucs2Alone, ucs2Part = 70, 67
)

// Segments counts the segments that a text is sent in. Where all of its characters are of GSM-7, these are fewer; a
// single other character has all of it sent in UCS-2.
func Segments(text string) int {
	places, alone, part := gsmPlaces, gsmAlone, gsmPart
	if strings.ContainsFunc(text, func(r rune) bool { return gsmPlaces(r) == 0 }) {
		places, alone, part = ucs2Places, ucs2Alone, ucs2Part
	}
	total, parts, used := 0, 1, 0
	for _, r := range text {
		n := places(r)
		total += n
		if used += n; used > part { // no character is torn apart
			parts, used = parts+1, n
		}
	}
	if total <= alone {
		return 1
	}
	return parts
}

// gsmPlaces is how many septets a character takes; 0 when GSM-7 does not have it.
func gsmPlaces(r rune) int {
	switch {
	case strings.ContainsRune(gsmBasic, r):
		return 1
	case strings.ContainsRune(gsmExtension, r):
		return 2
	}
	return 0
}

// ucs2Places is how many units of 16 bits a character takes.
func ucs2Places(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}

// length counts the units of 16 bits of a text.
func length(text string) int {
	n := 0
	for _, r := range text {
		n += ucs2Places(r)
	}
	return n
}
