module github.com/corvo-cloud/corvo/sdks/go

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/corvo-cloud/corvo/data-plane/api v0.0.0
	google.golang.org/protobuf v1.36.12
)

require go.uber.org/goleak v1.3.0

replace github.com/corvo-cloud/corvo/data-plane/api => ../../data-plane/api
