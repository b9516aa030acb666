// Package refusal answers a gRPC call that is refused before it began. It must not know
// the reasons. Surprising: connect sends headers and then trailers, as for a stream that
// breaks, and a client that waits for headers takes that for an open stream.
package refusal

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"
)

// GRPC refuses r with headers alone (Trailers-Only in gRPC's words), so that the call fails
// when it is opened. It reports false, and does nothing, if r is not gRPC.
func GRPC(w http.ResponseWriter, r *http.Request, err *connect.Error) bool {
	kind := r.Header.Get("Content-Type")
	if r.ProtoMajor < 2 || kind != "application/grpc" && !strings.HasPrefix(kind, "application/grpc+") {
		return false
	}
	h := w.Header()
	for name, values := range err.Meta() {
		h[name] = values
	}
	h.Set("Content-Type", kind)
	h.Set("Grpc-Status", strconv.Itoa(int(err.Code())))
	h.Set("Grpc-Message", escape(err.Message()))
	w.WriteHeader(http.StatusOK)
	return true
}

// escape encodes a text for gRPC's header.
func escape(text string) string {
	var out strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}
