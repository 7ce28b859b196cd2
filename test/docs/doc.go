// Package docs holds the tests that keep the documentation true: what the tutorial runs, what the policy reference
// lists, where links lead, and the form of the decisions. There is no program code.
package docs
