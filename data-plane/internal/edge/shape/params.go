package shape

// Param is one parameter of a GET.
type Param struct {
	Name   string
	Doc    string
	Schema Schema
}

// TextParam is any text.
func TextParam(name, doc string) Param { return Param{name, doc, Schema{Type: "string"}} }

// IntParam is a whole number.
func IntParam(name, doc string) Param { return Param{name, doc, Schema{Type: "integer"}} }

// BoolParam is true or false.
func BoolParam(name, doc string) Param { return Param{name, doc, Schema{Type: "boolean"}} }

// TimeParam is a time in RFC 3339.
func TimeParam(name, doc string) Param {
	return Param{name, doc, Schema{Type: "string", Format: "date-time"}}
}

// UnknownParam says that a parameter is not known, and what may have been meant.
func UnknownParam(name string, known []Param) string {
	names := make([]string, len(known))
	for i := range known {
		names[i] = known[i].Name
	}
	return meant("is not a parameter of this call", name, names)
}
