// Package docs holds the tests that keep the documentation true: the commands of README, tutorial and all other pages,
// the API's examples, what the policy reference lists, where links lead, and the form of the decisions. There is no
// program code.
package docs
