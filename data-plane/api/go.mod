module github.com/corvo-cloud/corvo/data-plane/api

go 1.26.0

require (
	connectrpc.com/connect v1.21.1
	github.com/golang-jwt/jwt/v5 v5.3.1
	github.com/oklog/ulid/v2 v2.1.2
	go.uber.org/goleak v1.3.0
	google.golang.org/protobuf v1.36.12
)
