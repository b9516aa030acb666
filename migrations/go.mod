module github.com/corvo-cloud/corvo/migrations

go 1.26.0
