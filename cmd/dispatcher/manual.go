package main

import (
	"fmt"

	"github.com/alecthomas/kong"
	mangokong "github.com/alecthomas/mango-kong"
	"github.com/muesli/roff"
)

type manCommand struct{}

// Run writes the manual page, which is made of what --help says.
func (manCommand) Run(parser *kong.Kong, to streams) error {
	_, err := fmt.Fprint(to.out, mangokong.NewManPage(1, parser.Model).Build(roff.NewDocument()))
	return err
}
