// Package deploy tests the files that put pacer into operation: docker-compose.yml, Dockerfile and what is below
// deploy. Each is loaded as its tool does. There is no program code.
package deploy
