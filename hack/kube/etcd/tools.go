//go:build tools

// Package tools keeps the command that build.py compiles in go.mod and go.sum.
package tools

import _ "go.etcd.io/etcd/server/v3"
