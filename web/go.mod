module github.com/corvo-cloud/corvo/web

go 1.26.0

ignore node_modules
