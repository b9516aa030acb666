module github.com/corvo-cloud/corvo/services

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/corvo-cloud/corvo/data-plane v0.0.0
	github.com/corvo-cloud/corvo/data-plane/api v0.0.0
	github.com/corvo-cloud/corvo/sdks/go v0.0.0
	github.com/oklog/ulid/v2 v2.1.2
	github.com/spf13/cobra v1.10.2
	go.uber.org/goleak v1.3.0
	golang.org/x/sync v0.24.0
	google.golang.org/protobuf v1.36.12
)

replace github.com/corvo-cloud/corvo/data-plane => ../data-plane

replace github.com/corvo-cloud/corvo/data-plane/api => ../data-plane/api

replace github.com/corvo-cloud/corvo/sdks/go => ../sdks/go
